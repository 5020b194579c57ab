// Loaded before everything else in a test process. The runner would load each module of it, and of
// every program that it starts, through hooks that note its name: that costs seconds a process, and
// programs that may load nothing else, as those of the sandbox, would fail of it.
import module, { syncBuiltinESMExports } from 'node:module'

const { register } = module
module.register = (specifier, ...rest) =>
  String(specifier).includes('/@tapjs/') ? undefined : register(specifier, ...rest)
syncBuiltinESMExports()

// The runner's own switch: it does not follow this process and its children.
process.env.__TAPJS_PROCESSINFO_TESTING_NO_REGISTER__ = String(process.pid)
delete process.env.NODE_OPTIONS

// A test that is run from its source; `npm test` builds them, and spares each process the loader.
if (process.argv[1]?.endsWith('.ts')) await import('tsx')
