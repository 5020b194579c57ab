import { setTimeout as pause } from 'node:timers/promises'
import type { PrivateKeyAccount, TransactionReceipt } from 'viem'
import type { Call, EvmClient } from '../chain/evm.ts'
import type { SolanaLook } from '../chain/solana-look.ts'
import type { Token } from '../chain/usdc.ts'
import type { Facilitator } from '../chain/x402/facilitator.ts'
import { SECOND, type Clock } from '../core/clock.ts'
import type { Runtime } from '../actors/runtime.ts'
import type { SettlementStore } from '../persistence/settlements.ts'
import type { SettlerLane } from '../persistence/settler-lane.ts'
import type { ChainName } from './ledger.ts'
import { evmRail } from './settle-evm.ts'
import { mppRail } from './settle-mpp.ts'
import type { SettleRail } from './settle-rail.ts'
import { solanaRail } from './settle-solana.ts'
import { telling } from './settle-tell.ts'
import { working } from './settle-work.ts'
import { rounds, type Begun, type Rounds } from './settle-rounds.ts'
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
  /** Asks Solana itself what became of a payment; without it only the facilitator is asked. */
  readonly solanaLook?: SolanaLook | null
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
const POLL_MS = 100

/**
 * Settles the payments of all payers. It lives by itself: no request has to wait for it, and what a
 * node leaves behind is found by the next sweep of any node. A chain that does not answer delays what
 * is on it, and nothing else.
 */
export function settler(parts: SettlerParts) {
  const { actors, store, clock, log, receiptMs = RECEIPT_MS, sweepMs = SWEEP_MS } = parts
  const closing = new AbortController()
  const { signal } = closing
  const { rails, transmitters } = railsOf({ ...parts, receiptMs, signal })
  const works = working({ actors, store, clock, log, rails, signal })
  const telling = rounds(tellPayers, (error) => log('payers not told', error))
  const all = [telling, ...[...rails.keys()].map(roundsOf)]

  async function tellPayers(): Promise<Begun[]> {
    for (const payer of await store.untold(AT_ONCE)) await actors.wake(payer, 'payer').catch(late)
    return []
  }

  function roundsOf(chain: string): Rounds {
    const tend = async () => transmitters.get(chain)?.tend().catch(down(chain))
    const round = async (): Promise<Begun[]> => {
      await Promise.all([tend(), telling.begin()])
      if (signal.aborted) return []
      const open = await store.toWorkOn(chain, clock.now(), AT_ONCE, works.busy())
      return open.map(({ id }) => works.work(id))
    }
    return rounds(round, (error) => log(`settlements on ${chain} not swept`, error))
  }

  /** Begins everything there is to do at this instant; resolves to what has been begun. */
  async function lookAround(): Promise<Begun[]> {
    return (await Promise.all(all.map(({ begin }) => begin()))).flat()
  }

  const down = (chain: string) => (error: unknown) => log(`${chain} does not answer`, error)
  const late = (error: unknown) => log('a payer was not told', error)

  const timer = sweepMs === null ? null : setInterval(() => void lookAround(), sweepMs)
  timer?.unref()
  if (timer !== null) void lookAround()

  return {
    /** Works on a settlement now; returns at once. */
    kick(id: string): void {
      works.wake(id)
      void works.work(id)
    },

    /** Waits for the chain: `pending` when `timeoutMs` have passed first. It goes on by itself. */
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
     * Sends a call of our own, a sweep of a wallet, once for its purpose: a repetition finds what
     * was sent. Throws `WouldRevert` before anything is sent, and whatever says that a chain is down.
     */
    async submit({ chain, ...call }: Own & { chain: ChainName }): Promise<Transmission> {
      const sender = transmitters.get(chain)
      if (sender === undefined) throw new Error(`nothing can be submitted on ${chain}`)
      return submitted(sender, call, receiptMs, signal)
    },

    /** Whether calls paid on this chain may run before they settle: it answers, and there is gas. */
    optimistic: (chain: ChainName): boolean => transmitters.get(chain)?.healthy() ?? false,

    /** Everything there is to do at this instant, done; what is under way already ends first. */
    async sweep(): Promise<void> {
      await works.ended()
      await Promise.all(await lookAround())
    },

    /** Ends all waiting. What is open stays open: it is found again by the next sweep of any node. */
    async close(): Promise<void> {
      if (timer !== null) clearInterval(timer)
      closing.abort()
      await Promise.all(all.map(({ ended }) => ended()))
      await works.ended()
    },
  }
}
export type Settler = ReturnType<typeof settler>

/** One way to settle for each chain that is configured, and the keys that submit. */
function railsOf(parts: SettlerParts & { receiptMs: number; signal: AbortSignal }) {
  const { store, clock, log, lane, receiptMs, signal, tempo, facilitator } = parts
  const transmitters = new Map<string, Transmitter>()
  const rails = new Map<string, SettleRail>()
  const tell = telling(parts.actors)
  for (const chain of ['base', 'bsc'] as const) {
    const settling = parts[chain]
    if (settling === null) continue
    const sender = transmitter({ chain, ...settling, lane, clock, log, signal })
    const bookedFor = (tx: string, logIndex: number) => store.bookedFor(chain, tx, logIndex)
    const shared = { transmitter: sender, tell, clock, log, bookedFor, receiptMs, signal }
    transmitters.set(chain, sender)
    rails.set(chain, evmRail({ ...settling, ...shared }))
  }
  if (tempo !== null) rails.set('tempo', mppRail(tempo, tell))
  if (facilitator !== null) {
    const look = parts.solanaLook ?? null
    rails.set('solana', solanaRail({ facilitator, look, clock, tell, log }))
  }
  return { rails, transmitters }
}

interface Own extends Call {
  readonly purpose: string
}

async function submitted(
  sender: Transmitter,
  { purpose, to, data }: Own,
  receiptMs: number,
  signal: AbortSignal,
): Promise<Transmission> {
  const before = await sender.look(purpose)
  if (before.state === 'mined') return { state: 'mined', receipt: before.receipt }
  // A block may have had it, and a node that lags behind not know.
  const known = before.state === 'open' ? await sender.newest(purpose) : null
  const tx = known ?? (await sender.prepare(purpose, { to, data }))
  await sender.send(tx)
  const { state, receipt } = await sender.wait(tx, receiptMs, signal)
  if (state === 'open') return { state: 'pending', receipt: null }
  return { state: state === 'mined' ? 'mined' : 'reverted', receipt }
}
