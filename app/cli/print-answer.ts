import { fstatSync, statSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { newPrefixedId } from '../../core/ids-and-api-keys.ts'
import { loadCliClientEnvironment } from '../config.ts'
import { replaceFile } from './cli-files.ts'
import { toDocumentText } from './cli-output.ts'
import { CliFailure } from './cli-verb.ts'

/** Printing of what a station tells once. */

const [STDOUT, STDERR] = [1, 2]
const POLL_MS = 20
/** A reader that takes nothing for this long is gone. */
const MAX_WAIT_MS = 10_000

/**
 * Prints what a station made and tells once, such as a key: to stdout, else to stderr, else into a file beside the
 * settings (mode 0600), so that it is not lost with a reader or a disk. Throws `CliFailure` where stdout failed.
 */
export function printAnswer(answer: unknown, forPrograms: boolean): void {
  const text = `${toDocumentText(answer, forPrograms)}\n`
  if (writeWhole(STDOUT, text)) return
  if (writeWhole(STDERR, text))
    throw new CliFailure('stdout takes nothing, so the answer is on stderr')
  const { settingsFile } = loadCliClientEnvironment()
  const file = `${newPrefixedId(join(dirname(settingsFile), 'answer'))}.json`
  replaceFile(file, text)
  throw new CliFailure(`stdout takes nothing, so the answer is in ${file}`)
}

/** Writes now, not when the program may have ended already. Returns whether all of it was taken. */
function writeWhole(fd: number, text: string): boolean {
  if (isDiscarded(fd)) return false
  const bytes = Buffer.from(text)
  const sleeper = new Int32Array(new SharedArrayBuffer(4))
  let [sent, waited] = [0, 0]
  while (sent < bytes.length) {
    try {
      sent += writeSync(fd, bytes, sent)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || waited >= MAX_WAIT_MS) return false
      Atomics.wait(sleeper, 0, 0, POLL_MS)
      waited += POLL_MS
    }
  }
  return true
}

/** Node opens the null device in place of a descriptor that is closed. */
function isDiscarded(fd: number): boolean {
  try {
    return fstatSync(fd).rdev === statSync('/dev/null').rdev && fstatSync(fd).isCharacterDevice()
  } catch {
    return false
  }
}
