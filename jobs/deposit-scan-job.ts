import { HOUR, MINUTE, SECOND, type Clock } from '../core/clock.ts'
import { LIMITS } from '../core/limits.ts'
import type { DepositScanner, DepositScanResult } from '../payments/deposits/deposit-scanner.ts'
import type { WalletSweeper } from '../payments/deposits/wallet-sweeper.ts'
import type { UnconfirmedDepositCache } from '../payments/deposits/unconfirmed-deposits.ts'

/** Scans a chain for deposits, sweeps wallets and compares balances. */

export interface DepositScanJobDeps {
  readonly chain: string
  readonly watch: DepositScanner
  /** Called after each scan that has read all confirmed blocks. */
  readonly unconfirmed: Pick<UnconfirmedDepositCache, 'refresh'>
  /** Null when nothing can be submitted to the chain. */
  readonly sweeper: Pick<WalletSweeper, 'round'> | null
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

/** Health of the scan, as a dependency of the service. */
export interface DepositScanHealth {
  readonly ok: boolean
  readonly kind: string
  readonly detail?: string
}

export const DEPOSITS_DISABLED_HEALTH: DepositScanHealth = { ok: true, kind: 'disabled: no RPC' }

const SCAN_INTERVAL_MS = 2 * SECOND
const MAX_BACKOFF_MS = MINUTE
/** Deposits should appear within a minute; an older scan is unhealthy. */
const STALE_AFTER_MS = MINUTE

/**
 * Scans a chain every two seconds, sweeps wallets every minute, compares balances every hour. Backs
 * off while the chain node fails. Any number of nodes may run it.
 */
export function createDepositScanJob(parts: DepositScanJobDeps) {
  const { chain, watch, unconfirmed, sweeper, clock, log, everyMs = SCAN_INTERVAL_MS } = parts
  const startedAt = clock.mono()
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> = Promise.resolve()
  let chores: Promise<void> | null = null
  let stopped = false
  let failures = 0
  let lastGood: number | null = null
  let last: DepositScanResult | null = null
  let differing = 0
  const sweepDue = createIntervalGate(clock, startedAt, MINUTE)
  const compareDue = createIntervalGate(clock, startedAt, HOUR)

  async function round(): Promise<void> {
    try {
      do last = await watch.look()
      while (last.more && !stopped)
      if (!last.more) await unconfirmed.refresh(last.read, last.head)
      if (failures > 0) log(`${chain} answers again after ${failures} failed looks`, undefined)
      failures = 0
      lastGood = clock.mono()
    } catch (error) {
      failures += 1
      // Log an outage once and not at every scan.
      if (failures === 1) log(`${chain} cannot be read for deposits`, error)
      return
    }
    // In parallel to scans: sweeps wait for receipts and must not delay deposits.
    if (!stopped) chores ??= doChores().finally(() => (chores = null))
  }

  async function doChores(): Promise<void> {
    const failing = (what: string) => (error: unknown) => log(what, error)
    if (sweepDue()) await sweeper?.round().catch(failing('wallets not swept'))
    if (compareDue()) await compare().catch(failing('balances not compared'))
  }

  async function compare(): Promise<void> {
    const differences = await watch.compare()
    differing = differences.length
    for (const { agentId, address, booked, held } of differences) {
      log(
        `${chain}: wallet ${address} of ${agentId} holds ${held}, the ledger says ${booked}`,
        null,
      )
    }
  }

  function wait(): void {
    if (stopped) return
    const ms = Math.min(everyMs * 2 ** Math.min(failures, 10), Math.max(everyMs, MAX_BACKOFF_MS))
    timer = setTimeout(() => {
      running = round().finally(wait)
    }, ms)
    timer.unref()
  }

  return {
    start(): void {
      running = round().finally(wait)
    },

    /** Whether deposits are read in time. */
    health(): DepositScanHealth {
      const ageMs = clock.mono() - (lastGood ?? startedAt)
      return toScanHealth(chain, { ageMs, failures, differing, last })
    },

    /** Stops after the current scan. */
    async stop(): Promise<void> {
      stopped = true
      clearTimeout(timer)
      await running
      await chores
    },
  }
}

/** Returns a function that is true once per interval. */
function createIntervalGate(clock: Clock, from: number, everyMs: number): () => boolean {
  let next = from
  return () => {
    if (clock.mono() < next) return false
    next = clock.mono() + everyMs
    return true
  }
}

interface DepositScanState {
  readonly ageMs: number
  readonly failures: number
  readonly differing: number
  readonly last: DepositScanResult | null
}

function toScanHealth(
  kind: string,
  { ageMs, failures, differing, last }: DepositScanState,
): DepositScanHealth {
  if (failures > 0 || ageMs > STALE_AFTER_MS) {
    // No error text: an RPC URL may contain a key.
    const detail =
      ageMs > STALE_AFTER_MS ? `not read for ${Math.round(ageMs / SECOND)} s` : 'retrying'
    return { ok: false, kind, detail }
  }
  if (differing > 0)
    return { ok: false, kind, detail: `${differing} wallets differ from the ledger` }
  const behind = last === null ? 0n : last.head - last.read
  const lag = behind - BigInt(LIMITS.depositConfirmations) + 1n
  return { ok: true, kind, ...(lag > 0n ? { detail: `${lag} blocks to read` } : {}) }
}
