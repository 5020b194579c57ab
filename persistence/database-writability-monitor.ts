import { SECOND } from '../core/clock.ts'
import type { Sql } from './postgres/postgres-connection-pool.ts'

/** Detects that Postgres cannot store data. */

/** The server is a replica, or was the primary before a failover. */
const READ_ONLY = '25006'
/** Storage errors of Postgres by SQLSTATE. */
const STORAGE_FAULTS: ReadonlyMap<unknown, string> = new Map([
  ['53100', 'its disk is full'],
  ['53200', 'it is out of memory'],
  ['58030', 'its disk fails'],
  [READ_ONLY, 'it is read only'],
])
const PROBE_INTERVAL_MS = SECOND
/** Time for new connections, and for a failover to end, before these are given up as well. */
const READ_ONLY_INTERVAL_MS = 3 * SECOND
/**
 * Storage counts as recovered once this fits: the first commit afterwards should not fail again.
 */
const PROBE_KIB = 1_024

/** Why Postgres could not store something, as text; null for other errors. Follows causes. */
export const describePostgresStorageFault = (error: unknown): string | null =>
  STORAGE_FAULTS.get(storageFaultCode(error)) ?? null

function storageFaultCode(error: unknown): unknown {
  if (!(error instanceof Error)) return null
  const { code, cause } = error as { code?: unknown; cause?: unknown }
  return STORAGE_FAULTS.has(code) ? code : storageFaultCode(cause)
}

/** Whether Postgres can store data, from its last storage error and the probes since. */
export interface DatabaseWritabilityMonitor {
  /** Reports a failed write; errors other than storage errors are ignored. */
  failed(error: unknown): void
  /** What is wrong, until a write works again. */
  fault(): string | null
  stop(): void
}

/**
 * A station whose health is 503 may get no writes, so it probes: each second it writes a megabyte
 * that is rolled back, until that works. Connections to a server that is read only stay with it when another
 * becomes the primary, so `reconnect` is called before each further probe.
 */
export function startDatabaseWritabilityMonitor(
  sql: Sql,
  reconnect: () => void,
): DatabaseWritabilityMonitor {
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
      // Other checks report an unavailable database; whether it can store data is unknown then.
      fault = describePostgresStorageFault(error) ?? fault
      later(error)
    }
  }

  function later(error: unknown): void {
    if (stopped) return
    const isReadOnly = storageFaultCode(error) === READ_ONLY
    if (isReadOnly) reconnect()
    next = setTimeout(() => void probe(), isReadOnly ? READ_ONLY_INTERVAL_MS : PROBE_INTERVAL_MS)
    next.unref()
  }

  return {
    failed(error) {
      const found = describePostgresStorageFault(error)
      if (found === null) return
      if (fault === null) later(error)
      fault = found
    },
    fault: () => fault,
    stop() {
      stopped = true
      clearTimeout(next)
    },
  }
}
