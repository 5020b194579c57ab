import { setMaxListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { PrivateKeyAccount, TransactionReceipt } from 'viem'
import type { Call, EvmClient } from '../chain/evm.ts'
import { decodePayment } from '../chain/payment.ts'
import type { Token } from '../chain/usdc.ts'
import type { Facilitator } from '../chain/x402/facilitator.ts'
import { SECOND, type Clock } from '../core/clock.ts'
import type { Command } from '../actors/command.ts'
import type { Runtime } from '../actors/runtime.ts'
import type { OpenSettlement, SettlementStore } from '../persistence/settlements.ts'
import type { SettlerLane } from '../persistence/settler-lane.ts'
import { touching } from './commands/payment.ts'
import {
  paymentLost,
  paymentRetry,
  paymentSettled,
  paymentSubmitted,
  paymentUnknown,
} from './commands/settlement.ts'
import type { ChainName } from './ledger.ts'
import { evmRail } from './settle-evm.ts'
import { mppRail } from './settle-mpp.ts'
import { solanaRail } from './settle-solana.ts'
import type { SettleRail, Tell, Work } from './settle-rail.ts'
import { transmitter, type Transmitter } from './transmitter.ts'

/** A chain on which our key submits what payers have signed. */
export interface EvmSettling {
  readonly client: EvmClient
  readonly account: PrivateKeyAccount
  readonly token: Token
}

export interface SettlerParts {
  readonly actors: Pick<Runtime, 'ask' | 'wake'>
  readonly store: SettlementStore
  readonly lane: SettlerLane
  readonly clock: Clock
  readonly base: EvmSettling | null
  readonly bsc: EvmSettling | null
  readonly tempo: EvmClient | null
  readonly facilitator: Facilitator | null
  readonly log: (message: string, error: unknown) => void
  /** How long a receipt is waited for before a payment counts as unknown. */
  readonly receiptMs?: number
  /** Null: only what is kicked is worked on, and what `sweep` is called for. */
  readonly sweepMs?: number | null
}

export interface Transmission {
  readonly state: 'mined' | 'reverted' | 'pending'
  readonly receipt: TransactionReceipt | null
}

const SWEEP_MS = 2 * SECOND
const RECEIPT_MS = 12 * SECOND
const AT_ONCE = 64
const BACK_OFF_MS = { first: 250, most: 30 * SECOND }
const POLL_MS = 100
const OPEN: ReadonlySet<string> = new Set(['due', 'submitted', 'unknown'])

/**
 * Settles the payments of all payers. It lives by itself: no request has to wait for it, and what a
 * node leaves behind is found by the next sweep of any node. A chain that does not answer delays.
 */
export function settler(parts: SettlerParts) {
  const { actors, store, clock, log } = parts
  const { receiptMs = RECEIPT_MS, sweepMs = SWEEP_MS } = parts
  const closing = new AbortController()
  // Every payment under way listens to it.
  setMaxListeners(0, closing.signal)
  const running = new Map<string, Promise<void>>()
  const resting = new Map<string, { until: number; tries: number }>()
  const transmitters = new Map<string, Transmitter>()
  const rails = new Map<string, SettleRail>()
  const tell = telling(actors)
  let looking: Promise<Promise<void>[]> | null = null

  for (const chain of ['base', 'bsc'] as const) {
    const settling = parts[chain]
    if (settling === null) continue
    const { lane } = parts
    const sender = transmitter({ chain, ...settling, lane, clock, log })
    transmitters.set(chain, sender)
    const signal = closing.signal
    rails.set(chain, evmRail({ ...settling, transmitter: sender, tell, log, receiptMs, signal }))
  }
  if (parts.tempo !== null) rails.set('tempo', mppRail(parts.tempo, tell))
  if (parts.facilitator !== null) rails.set('solana', solanaRail(parts.facilitator, clock, tell))

  /** Works on one settlement until it has settled, is lost, or has to wait. Never rejects. */
  function work(id: string): Promise<void> {
    const under = running.get(id)
    if (under !== undefined) return under
    const done = advance(id)
      .catch((error: unknown) => {
        log(`settlement ${id} waits`, error)
        rest(id)
      })
      .finally(() => running.delete(id))
    running.set(id, done)
    return done
  }

  type Proof = Pick<Work, 'payment' | 'fromBlock'>

  async function proofOf(id: string): Promise<Proof> {
    const proof = await store.proof(id)
    if (proof === null) throw new Error(`settlement ${id} has no proof`)
    return { payment: decodePayment(proof.payment), fromBlock: proof.fromBlock }
  }

  async function advance(id: string): Promise<void> {
    // What the payer signed stays what it is for all steps of this round.
    let known: Promise<Proof> | null = null
    const proof = () => (known ??= proofOf(id))
    while (!closing.signal.aborted) {
      const next = await workOf(id, proof)
      const rail = next === null ? undefined : rails.get(next.chain)
      if (next === null || rail === undefined) break
      if ((await rail.advance(next)) === 'later') return rest(id)
    }
    resting.delete(id)
  }

  /** Null when there is nothing to do. A payer may not have heard yet that a call was delivered. */
  async function workOf(id: string, proof: () => Promise<Proof>): Promise<Work | null> {
    let found = await store.find(id)
    if (found?.money === 'claimed') {
      await actors.wake(found.payer, 'payer')
      found = await store.find(id)
    }
    if (found === null || !isOpen(found)) return null
    return { ...found, ...(await proof()) }
  }

  const isOpen = ({ money, lookAt }: OpenSettlement): boolean =>
    OPEN.has(money) || (money === 'lost' && lookAt !== null && lookAt <= clock.now())

  const isResting = (id: string): boolean => (resting.get(id)?.until ?? 0) > clock.mono()

  function rest(id: string): void {
    const tries = (resting.get(id)?.tries ?? 0) + 1
    const wait = Math.min(BACK_OFF_MS.first * 2 ** (tries - 1), BACK_OFF_MS.most)
    resting.set(id, { until: clock.mono() + wait, tries })
  }

  /** Begins everything there is to do at this instant; resolves to what has been begun. */
  async function look(): Promise<Promise<void>[]> {
    await Promise.all([...transmitters].map(([chain, one]) => one.tend().catch(down(chain))))
    for (const payer of await store.untold(AT_ONCE)) await actors.wake(payer, 'payer').catch(late)
    const left = [...resting.keys()].filter(isResting)
    const open = await store.toWorkOn(clock.now(), AT_ONCE, [...left, ...running.keys()])
    return open.map(({ id }) => work(id))
  }

  /** At most one look at a time; what it has begun goes on by itself. */
  function lookAround(): Promise<Promise<void>[]> {
    looking ??= look()
      .catch((error: unknown) => {
        log('settlements not swept', error)
        return []
      })
      .finally(() => (looking = null))
    return looking
  }

  const down = (chain: string) => (error: unknown) => log(`${chain} does not answer`, error)
  const late = (error: unknown) => log('a payer was not told', error)

  const timer = sweepMs === null ? null : setInterval(() => void lookAround(), sweepMs)
  timer?.unref()
  if (timer !== null) void lookAround()

  return {
    /** Works on a settlement now; returns at once. */
    kick(id: string): void {
      resting.delete(id)
      void work(id)
    },

    /** Waits for the chain: `pending` when `timeoutMs` have passed first. It goes on by itself. */
    async settled(id: string, timeoutMs: number): Promise<'settled' | 'lost' | 'pending'> {
      const until = clock.mono() + timeoutMs
      const limit = pause(timeoutMs, undefined, { ref: false, signal: closing.signal }).catch(
        () => {},
      )
      resting.delete(id)
      for (;;) {
        if (!isResting(id)) await Promise.race([work(id), limit])
        const money = (await store.find(id))?.money
        if (money === 'settled' || money === 'lost') return money
        if (closing.signal.aborted || clock.mono() >= until) return 'pending'
        await pause(POLL_MS)
      }
    },

    /**
     * Sends a call of our own, a sweep of a wallet, once for its purpose: a repetition finds what
     * was sent. Throws `WouldRevert` before anything is sent, and whatever says that a chain is down.
     */
    async submit(call: Call & { chain: ChainName; purpose: string }): Promise<Transmission> {
      const { chain, purpose, to, data } = call
      const sender = transmitters.get(chain)
      if (sender === undefined) throw new Error(`nothing can be submitted on ${chain}`)
      const before = await sender.look(purpose)
      if (before.state === 'mined') return { state: 'mined', receipt: before.receipt }
      await sender.send(await sender.prepare(purpose, { to, data }))
      const every = parts[chain as 'base' | 'bsc']?.client.pollingInterval ?? SECOND
      for (let waited = 0; waited < receiptMs && !closing.signal.aborted; waited += every) {
        const { state, receipt } = await sender.look(purpose)
        if (state === 'mined' || state === 'reverted') return { state, receipt }
        if (state === 'void') return { state: 'reverted', receipt }
        await pause(every)
      }
      return { state: 'pending', receipt: null }
    },

    /** Whether calls paid on this chain may run before they settle: it answers, and there is gas. */
    optimistic: (chain: ChainName): boolean => transmitters.get(chain)?.healthy() ?? false,

    /** Everything there is to do at this instant, done. */
    async sweep(): Promise<void> {
      await Promise.all(await lookAround())
    },

    /** Ends all waiting. What is open stays open: it is found again by the next sweep of any node. */
    async close(): Promise<void> {
      if (timer !== null) clearInterval(timer)
      closing.abort()
      await Promise.allSettled([looking, ...running.values()])
    },
  }
}
export type Settler = ReturnType<typeof settler>

/** What the chain says becomes commands to the payer's aggregate. */
function telling(actors: SettlerParts['actors']): Tell {
  const ask = async <I extends { settlement: string }>(
    { payer }: Work,
    command: Command<I, { money: string }>,
    input: I,
  ) => (await actors.ask(payer, command, input, touching(input.settlement))).money
  return {
    submitted: (work, txHash) => ask(work, paymentSubmitted, { settlement: work.id, txHash }),
    unknown: (work) => ask(work, paymentUnknown, { settlement: work.id }),
    retry: (work) => ask(work, paymentRetry, { settlement: work.id }),
    settled: (work, { tx, logIndex, block }) =>
      ask(work, paymentSettled, { settlement: work.id, tx, logIndex, block }),
    lost: (work, lookAt) => ask(work, paymentLost, { settlement: work.id, lookAt }),
  }
}
