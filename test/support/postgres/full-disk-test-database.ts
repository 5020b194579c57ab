import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTestDatabase, type TestDatabase } from './test-database.ts'

/** A database on a small file system, for tests of a full disk. */

interface Test {
  teardown(work: () => unknown): unknown
}

export interface DatabaseOnSmallDisk {
  readonly database: TestDatabase
  /** Leaves no page to the database. */
  fill(): void
  clear(): void
}

const MIB = 1024 * 1024
const SIZE_MIB = 192
const PAGE = 4096

/**
 * Creates a database on a small disk of its own that can be filled, so that Postgres reports a full disk.
 * Null if this user may not mount one.
 */
export async function createDatabaseOnSmallDisk(t: Test): Promise<DatabaseOnSmallDisk | null> {
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-disk-'))
  chmodSync(dir, 0o755)
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MIB}m`, 'tmpfs', dir])
  t.teardown(() => {
    if (status === 0) spawnSync('umount', [dir])
    rmSync(dir, { recursive: true, force: true })
  })
  if (status !== 0) return null
  const tables = join(dir, 'tables')
  mkdirSync(tables)
  const database = await createTestDatabase(t, {
    name: `disk_${process.pid}`,
    at: (dataDirectory) => {
      const { uid, gid } = statSync(dataDirectory)
      chownSync(tables, uid, gid)
      return tables
    },
  })
  const filler = join(dir, 'filler')
  return {
    database,
    fill() {
      for (let piece = MIB; piece >= PAGE;)
        try {
          writeFileSync(filler, Buffer.alloc(piece), { flag: 'a' })
        } catch {
          piece /= 2
        }
    },
    clear: () => rmSync(filler, { force: true }),
  }
}
