import { createHash } from 'node:crypto'
import { chmodSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TeardownScope } from '../upstreams/fixture-server.ts'

/**
 * Creates a data directory in /tmp, where the user of an embedded database has access, unlike `t.testdir()`
 * in a checkout of root. It is removed with its test, including sockets of killed stations. A station that
 * starts later in the test stops before that; `t.testdir()` can be removed while the station still writes.
 */
export function createStationDataDir(t: TeardownScope): string {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'gas-station-home-')))
  chmodSync(home, 0o755)
  t.teardown(() => {
    for (const dataDir of [home, join(home, 'data')]) {
      const name = createHash('sha1').update(join(dataDir, 'pg18')).digest('hex').slice(0, 8)
      rmSync(join(tmpdir(), `gas-station-pg-${name}`), { recursive: true, force: true })
    }
    rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
  })
  return home
}
