import { openSync } from 'node:fs'
import { startSandboxHostProcess } from '../../../providers/sandbox/sandbox-host-process.ts'

/** A process that has no file left, and starts a host all the same: it says what it is told, and lives on. */
try {
  for (;;) openSync('/dev/null', 'r')
} catch {
  // From here on nothing can be opened.
}
let startError = 'it was started'
try {
  startSandboxHostProcess({ isolation: 'process', command: () => ['/bin/true'] } as never, 'bash')
} catch (error) {
  startError = (error as NodeJS.ErrnoException).code ?? 'unknown'
}
setImmediate(() => process.exit(startError === 'EMFILE' ? 0 : 3))
