// Loaded before everything else in a test process. The runner would load each module of it, and of
// every program that it starts, through hooks that note its name: that costs seconds a process, and
// programs that may load nothing else, as those of the sandbox, would fail of it.
import asyncHooks from 'node:async_hooks'
import module, { syncBuiltinESMExports } from 'node:module'

const { register } = module
module.register = (specifier, ...rest) =>
  String(specifier).includes('/@tapjs/') ? undefined : register(specifier, ...rest)

// It also follows each promise to know the test of an uncaught error, which takes a fifth of the processor
// time. The files of a group run one after the other, and their entry knows which (scripts/build).
if (process.argv[1]?.includes('/.cache/test/groups/')) {
  const { createHook } = asyncHooks
  const inert = { enable: () => inert, disable: () => inert }
  asyncHooks.createHook = (callbacks) =>
    callbacks.init && callbacks.destroy && !callbacks.before ? inert : createHook(callbacks)
}
syncBuiltinESMExports()

// The runner's own switch: it does not follow this process and its children.
process.env.__TAPJS_PROCESSINFO_TESTING_NO_REGISTER__ = String(process.pid)
delete process.env.NODE_OPTIONS

// A test that is run from its source; `npm test` builds them, and spares each process the loader.
if (process.argv[1]?.endsWith('.ts')) await import('tsx')
