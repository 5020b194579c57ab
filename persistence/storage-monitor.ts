import { SECOND } from '../core/clock.ts'
import type { Sql } from './postgres/connection-pool.ts'

/** What Postgres says when it cannot keep what it is given, by SQLSTATE. */
const STORAGE_FAULTS: ReadonlyMap<unknown, string> = new Map([
  ['53100', 'its disk is full'],
  ['53200', 'it is out of memory'],
  ['58030', 'its disk fails'],
])
const PROBE_INTERVAL_MS = SECOND
/** So much must fit before storage counts as well: the first commit afterwards should not fail again. */
const PROBE_KIB = 1_024

/** Why Postgres could not store something, in words; null for every other error. Looks through causes. */
export function findStorageFault(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  const { code, cause } = error as { code?: unknown; cause?: unknown }
  return STORAGE_FAULTS.get(code) ?? findStorageFault(cause)
}

/** Whether Postgres can store what it is given, as its last refusal and the probes since say. */
export interface StorageMonitor {
  /** To be told of every failed write; other errors than those of storage are no matter. */
  failed(error: unknown): void
  /** What is wrong, until a write works again. */
  fault(): string | null
  stop(): void
}

/**
 * Nobody may send a write to a station whose health says 503, so it tries one itself: each second it
 * writes a megabyte that is thrown away, until that works.
 */
export function startStorageMonitor(sql: Sql): StorageMonitor {
  let fault: string | null = null
  let next: NodeJS.Timeout | undefined
  let stopped = false

  async function probe(): Promise<void> {
    try {
      await sql.begin(async (tx) => {
        await tx`create temp table storage_probe (filler text) on commit drop`
        await tx`insert into storage_probe
                 select repeat('x', 1000) from generate_series(1, ${PROBE_KIB})`
      })
      fault = null
    } catch (error) {
      // A database that is away is told of by others; whether it can store is not known then.
      fault = findStorageFault(error) ?? fault
      later()
    }
  }

  function later(): void {
    if (stopped) return
    next = setTimeout(() => void probe(), PROBE_INTERVAL_MS)
    next.unref()
  }

  return {
    failed(error) {
      const found = findStorageFault(error)
      if (found === null) return
      if (fault === null) later()
      fault = found
    },
    fault: () => fault,
    stop() {
      stopped = true
      clearTimeout(next)
    },
  }
}
