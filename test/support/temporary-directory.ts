import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Gives a test a temporary directory of its own. */

interface TeardownScope {
  teardown(work: () => unknown): unknown
}

/**
 * Makes a folder the temporary directory of this process until the test ends, so that the folders of
 * its child processes can be counted. Returns the folder; processes of other users may enter it.
 */
export function overrideTmpdirDuringTest(t: TeardownScope, prefix: string): string {
  const previous = process.env['TMPDIR']
  const folder = mkdtempSync(join(tmpdir(), prefix))
  chmodSync(folder, 0o755)
  process.env['TMPDIR'] = folder
  t.teardown(() => {
    if (previous === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = previous
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  return folder
}
