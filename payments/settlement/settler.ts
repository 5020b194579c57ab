import { setTimeout as pause } from 'node:timers/promises'
import type { PrivateKeyAccount, TransactionReceipt } from 'viem'
import type { EvmCall, EvmClient } from '../../chain/evm/evm-client.ts'
import type { FindSolanaPayment } from '../../chain/solana/find-solana-payment-on-chain.ts'
import type { Eip3009Token } from '../../chain/evm/eip3009.ts'
import type { FacilitatorClient } from '../../chain/x402/facilitator-client.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import type { ActorRuntime } from '../../actors/actor-runtime.ts'
import type { SettlementQueries } from '../../persistence/payments/settlement-queries.ts'
import type { SettlerTransactionStore } from '../../persistence/payments/settler-transaction-store.ts'
import type { PaymentChainName } from '../ledger-accounts.ts'
import { createEvmSettlementRail } from './evm-settlement-rail.ts'
import { createMppSettlementRail } from './mpp-settlement-rail.ts'
import type { SettlementRail } from './settlement-rail.ts'
import { createSolanaSettlementRail } from './solana-settlement-rail.ts'
import { createPayerSettlementEventRecorder } from './settlement-reporter.ts'
import { createSettlementWorker } from './settlement-worker.ts'
import {
  createSettlementRoundCoalescer,
  type SettlementRoundBackgroundWork,
  type SettlementRoundCoalescer,
} from './settlement-round-coalescer.ts'
import {
  createSettlerTransactionSender,
  type SettlerTransactionSender,
} from './settler-transaction-sender.ts'

/** A chain on which our key submits signed payments. */
export interface EvmSettlementChain {
  readonly client: EvmClient
  readonly account: PrivateKeyAccount
  readonly token: Eip3009Token
}

export interface SettlerDeps {
  readonly actors: Pick<ActorRuntime, 'ask' | 'wake'>
  readonly store: SettlementQueries
  readonly transactions: SettlerTransactionStore
  readonly clock: Clock
  readonly base: EvmSettlementChain | null
  readonly bsc: EvmSettlementChain | null
  readonly tempo: EvmClient | null
  readonly facilitator: FacilitatorClient | null
  /** Queries Solana itself for a payment; without it only the facilitator is asked. */
  readonly solanaLook?: FindSolanaPayment | null
  readonly log: (message: string, error: unknown) => void
  /** How long to wait for a receipt before a payment counts as unknown. */
  readonly receiptMs?: number
  /** Null: works only on `kick` and `sweep`. */
  readonly sweepMs?: number | null
}

export interface SettlerSubmissionResult {
  readonly state: 'mined' | 'reverted' | 'pending'
  readonly receipt: TransactionReceipt | null
}

const SWEEP_MS = 2 * SECOND
/** Without a chain only payers are notified whose notification was lost. */
const SWEEP_WITHOUT_CHAINS_MS = 30 * SECOND
const RECEIPT_MS = 12 * SECOND
const MAX_SETTLEMENTS_PER_SWEEP = 64
const POLL_MS = 100

/**
 * Settles the payments of all payers in the background: requests need not wait, and any node's next
 * sweep picks up what a node leaves behind. An unresponsive chain delays only its own payments.
 */
export function createSettler(parts: SettlerDeps) {
  const { actors, store, clock, log, receiptMs = RECEIPT_MS } = parts
  const closing = new AbortController()
  const { signal } = closing
  const { rails, transmitters } = createSettlementRails({ ...parts, receiptMs, signal })
  const works = createSettlementWorker({ actors, store, clock, log, rails, signal })
  const notification = createSettlementRoundCoalescer(notifyPayers, (error) =>
    log('payers were not notified', error),
  )
  const { sweepMs = rails.size === 0 ? SWEEP_WITHOUT_CHAINS_MS : SWEEP_MS } = parts
  const all = [notification, ...[...rails.keys()].map(roundsOf)]

  async function notifyPayers(): Promise<SettlementRoundBackgroundWork[]> {
    for (const payer of await store.payersToNotify(MAX_SETTLEMENTS_PER_SWEEP))
      await actors.wake(payer, 'payer').catch(late)
    return []
  }

  function roundsOf(chain: string): SettlementRoundCoalescer {
    const tend = async () => transmitters.get(chain)?.tend().catch(down(chain))
    const round = async (): Promise<SettlementRoundBackgroundWork[]> => {
      await Promise.all([tend(), notification.begin()])
      if (signal.aborted) return []
      const open = await store.toWorkOn(chain, clock.now(), MAX_SETTLEMENTS_PER_SWEEP, works.busy())
      return open.map(({ id }) => works.work(id))
    }
    return createSettlementRoundCoalescer(round, (error) =>
      log(`settlements on ${chain} not swept`, error),
    )
  }

  /** Starts all due work; resolves to what has been started. */
  async function lookAround(): Promise<SettlementRoundBackgroundWork[]> {
    return (await Promise.all(all.map(({ begin }) => begin()))).flat()
  }

  const down = (chain: string) => (error: unknown) => log(`${chain} does not answer`, error)
  const late = (error: unknown) => log('a payer was not notified', error)

  const timer = sweepMs === null ? null : setInterval(() => void lookAround(), sweepMs)
  timer?.unref()
  if (timer !== null) void lookAround()

  return {
    /** Works on a settlement now; returns at once. */
    kick(id: string): void {
      works.wake(id)
      void works.work(id)
    },

    /** Waits for the chain; `pending` after `timeoutMs`. The work continues in the background. */
    async settled(id: string, timeoutMs: number): Promise<'settled' | 'lost' | 'pending'> {
      const until = clock.mono() + timeoutMs
      const limit = pause(timeoutMs, undefined, { ref: false, signal }).catch(() => {})
      works.wake(id)
      for (;;) {
        if (!works.isResting(id)) await Promise.race([works.work(id), limit])
        const money = (await store.find(id))?.money
        if (money === 'settled' || money === 'lost') return money
        if (signal.aborted || clock.mono() >= until) return 'pending'
        await pause(POLL_MS)
      }
    },

    /**
     * Sends a call of our own, a wallet sweep, once per purpose: a repetition finds the sent one.
     * Throws `WouldRevertError` before anything is sent, and any error of an unavailable chain.
     */
    async submit({
      chain,
      ...call
    }: PurposeCall & { chain: PaymentChainName }): Promise<SettlerSubmissionResult> {
      const sender = transmitters.get(chain)
      if (sender === undefined) throw new Error(`nothing can be submitted on ${chain}`)
      return submitOwnCall(sender, call, receiptMs, signal)
    },

    /**
     * Whether calls paid on this chain may run before they settle: it answers, and there is gas.
     */
    optimistic: (chain: PaymentChainName): boolean => transmitters.get(chain)?.healthy() ?? false,

    /** Runs all due work to its end, after the work in progress. */
    async sweep(): Promise<void> {
      await works.ended()
      await Promise.all(await lookAround())
    },

    /** Ends all waiting. Open settlements stay open: any node's next sweep finds them. */
    async close(): Promise<void> {
      if (timer !== null) clearInterval(timer)
      closing.abort()
      await Promise.all(all.map(({ ended }) => ended()))
      await works.ended()
    },
  }
}
export type Settler = ReturnType<typeof createSettler>

/** One rail for each configured chain, and the keys that submit. */
function createSettlementRails(parts: SettlerDeps & { receiptMs: number; signal: AbortSignal }) {
  const { store, clock, log, transactions, receiptMs, signal, tempo, facilitator } = parts
  const transmitters = new Map<string, SettlerTransactionSender>()
  const rails = new Map<string, SettlementRail>()
  const reporter = createPayerSettlementEventRecorder(parts.actors, store)
  for (const chain of ['base', 'bsc'] as const) {
    const settling = parts[chain]
    if (settling === null) continue
    const sender = createSettlerTransactionSender({
      chain,
      ...settling,
      transactions,
      clock,
      log,
      signal,
    })
    const bookedFor = (tx: string, logIndex: number) => store.bookedFor(chain, tx, logIndex)
    const shared = { transmitter: sender, reporter, clock, log, bookedFor, receiptMs, signal }
    transmitters.set(chain, sender)
    rails.set(chain, createEvmSettlementRail({ ...settling, ...shared }))
  }
  if (tempo !== null) rails.set('tempo', createMppSettlementRail(tempo, reporter))
  if (facilitator !== null) {
    const look = parts.solanaLook ?? null
    rails.set('solana', createSolanaSettlementRail({ facilitator, look, clock, reporter, log }))
  }
  return { rails, transmitters }
}

interface PurposeCall extends EvmCall {
  readonly purpose: string
}

async function submitOwnCall(
  sender: SettlerTransactionSender,
  { purpose, to, data }: PurposeCall,
  receiptMs: number,
  signal: AbortSignal,
): Promise<SettlerSubmissionResult> {
  const before = await sender.look(purpose)
  if (before.state === 'mined') return { state: 'mined', receipt: before.receipt }
  // A block may contain it although a lagging node does not know.
  const known = before.state === 'open' ? await sender.newest(purpose) : null
  const tx = known ?? (await sender.prepare(purpose, { to, data }))
  await sender.send(tx)
  const { state, receipt } = await sender.wait(tx, receiptMs, signal)
  if (state === 'open') return { state: 'pending', receipt: null }
  return { state: state === 'mined' ? 'mined' : 'reverted', receipt }
}
