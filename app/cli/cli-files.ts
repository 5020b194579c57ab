import { chmodSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { newPrefixedId } from '../../core/ids-and-api-keys.ts'
import { makeFolder } from '../../persistence/make-folder.ts'
import { toErrorMessage } from './cli-output.ts'
import { CliFailure } from './cli-verb.ts'

/** The files of `gas`. A failure is one line with the path and the reason. */

const EX_CONFIG = 78
const OWNER_ONLY = 0o600
const BYTE_ORDER_MARK = /^\uFEFF/

/** Reads a named file. Editors of Windows put a byte order mark before JSON. */
export function readTextFile(file: string): string {
  try {
    return readFileSync(file, 'utf8').replace(BYTE_ORDER_MARK, '')
  } catch (error) {
    throw fileFailure(file, 'read', error)
  }
}

/** The mode of a settings file; null without one. Devices and folders are refused: some never end. */
export function findFileMode(file: string): number | null {
  try {
    const found = statSync(file)
    if (!found.isFile()) throw new Error('it is no file')
    return found.mode
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(String((error as NodeJS.ErrnoException).code))) return null
    throw fileFailure(file, 'read', error)
  }
}

/** Replaces a file at once, so that a reader never sees a part of it, with mode 0600 from the start. */
export function replaceFile(file: string, text: string): void {
  const draft = newPrefixedId(file)
  try {
    makeFolder(dirname(file), 0o700)
    writeFileSync(draft, text, { mode: OWNER_ONLY, flag: 'wx' })
    chmodSync(draft, OWNER_ONLY)
    renameSync(draft, file)
  } catch (error) {
    rmSync(draft, { force: true })
    throw fileFailure(file, 'written', error)
  }
}

/** `deed` completes "cannot be". */
export const fileFailure = (file: string, deed: string, error: unknown): CliFailure =>
  error instanceof CliFailure
    ? error
    : new CliFailure(`${file} cannot be ${deed}: ${toErrorMessage(error)}`, EX_CONFIG)
