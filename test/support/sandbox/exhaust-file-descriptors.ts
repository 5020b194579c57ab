import { openSync } from 'node:fs'
import { startSandboxHostProcess } from '../../../providers/sandbox/spawn-sandbox-host-process.ts'

/** Starts a sandbox host without free file descriptors; exits with 0 when the start throws EMFILE. */

try {
  for (;;) openSync('/dev/null', 'r')
} catch {
  // No file can be opened after this point.
}
let startError = 'it was started'
try {
  startSandboxHostProcess({ isolation: 'process', command: () => ['/bin/true'] } as never, 'bash')
} catch (error) {
  startError = (error as NodeJS.ErrnoException).code ?? 'unknown'
}
setImmediate(() => process.exit(startError === 'EMFILE' ? 0 : 3))
