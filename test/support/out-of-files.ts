import { openSync } from 'node:fs'
import { startChild } from '../../tools/sandbox/child.ts'

/** A process that has no file left, and starts a host all the same: it says what it is told, and lives on. */
try {
  for (;;) openSync('/dev/null', 'r')
} catch {
  // From here on nothing can be opened.
}
let said = 'it was started'
try {
  startChild({ isolation: 'process', command: () => ['/bin/true'] } as never, 'bash')
} catch (error) {
  said = (error as NodeJS.ErrnoException).code ?? 'unknown'
}
setImmediate(() => process.exit(said === 'EMFILE' ? 0 : 3))
