import type { EvmClient } from '../chain/evm.ts'
import { finalCount, standingOf, type Standing } from '../chain/nonces.ts'
import type { Clock } from '../core/clock.ts'
import type { Lane, SettlerLane, StoredTx } from '../persistence/settler-lane.ts'
import type { Verdicts } from './verdicts.ts'

export interface NonceWatchParts {
  readonly chain: string
  readonly client: EvmClient
  readonly lane: SettlerLane
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  readonly signal: AbortSignal
  /** The key that is looked after. */
  readonly own: Lane
  readonly outcomes: Pick<Verdicts, 'lookAt'>
  readonly send: (tx: StoredTx) => Promise<unknown>
  /** Sends it again at a higher fee, or nothing in its place. */
  readonly push: (tx: StoredTx) => Promise<void>
  /** Sends nothing in its place. */
  readonly drop: (tx: StoredTx) => Promise<void>
  readonly patienceMs: number
}

const BUMP_MS = 30_000
const AT_ONCE = 200
const AGAIN_AT_ONCE = 50

/**
 * Goes over the nonces that a key has given out. Nodes behind one address are not equally far, and
 * blocks are replaced: that a nonce was used by something else, or is free again, is believed at a
 * second look.
 */
export function nonceWatch(parts: NonceWatchParts): () => Promise<void> {
  const { chain, client, lane, clock, log, signal, own, outcomes, patienceMs } = parts
  const [used, free] = [firstSeen(), firstSeen()]
  let [newest, lookedAgainAt] = [0n, -Infinity]

  /** Everything that was stored and that no block has answered, in the order of the nonces. */
  async function waiting({ block, count }: Standing): Promise<void> {
    const all = await lane.unconfirmed(own, AT_ONCE)
    const since = used(all.filter(({ nonce }) => nonce < count).map(nonceOf), {
      block,
      at: clock.mono(),
    })
    for (const tx of all) {
      if (signal.aborted) return
      const first = since.get(tx.nonce)
      const age = clock.now() - tx.createdAt.getTime()
      if (first !== undefined) await answered(tx, first)
      else if (age > BUMP_MS) await parts.push(tx)
      else if (age > patienceMs) await parts.send(tx)
    }
  }

  /** Its nonce is used: a block has it, or will show it to us, or never had it. */
  async function answered(tx: StoredTx, first: Sighting): Promise<void> {
    const { state, head } = await outcomes.lookAt(tx)
    if (state !== 'open' || !isOld(first) || head < first.block) return
    await lane.mark(own, tx.nonce, 'void')
    log(`the nonce ${tx.nonce} of ${own.address} on ${chain} was used elsewhere`, null)
  }

  /**
   * What was answered although its nonce is free: its block was replaced, and whatever comes behind it
   * waits. What had been carried out goes again, what had failed does not: its nonce goes to nothing.
   */
  async function undone({ block, count }: Standing): Promise<void> {
    const all = await lane.answered(own, count, AT_ONCE)
    const since = free(all.map(nonceOf), { block, at: clock.mono() })
    for (const tx of all) {
      const first = since.get(tx.nonce)
      if (signal.aborted) return
      if (first === undefined || !isOld(first) || block <= first.block) continue
      const { receipt, head } = await outcomes.lookAt(tx)
      if (receipt !== null || head < block) continue
      log(`the transaction ${tx.nonce} of ${own.address} on ${chain} is in no block any more`, null)
      await (tx.state === 'mined' ? lane.reopen(own, tx.nonce) : parts.drop(tx))
    }
  }

  /** A block may still show what was used up by nothing of ours, until its own is final. */
  async function lookAgain(): Promise<void> {
    if (clock.mono() - lookedAgainAt < patienceMs) return
    lookedAgainAt = clock.mono()
    const final = (await finalCount(client, own.address)) ?? 0
    for (const tx of await lane.voided(own, final, AGAIN_AT_ONCE)) {
      if (signal.aborted) return
      await outcomes.lookAt(tx)
    }
  }

  const isOld = ({ at }: Sighting): boolean => clock.mono() - at >= patienceMs

  return async () => {
    const standing = await standingOf(client, own.address)
    // A node that lags behind says nothing of what came after its newest block.
    if (standing === null || standing.block < newest) return
    newest = standing.block
    await lane.reconcile(own, standing.count)
    await undone(standing)
    await waiting(standing)
    await lookAgain()
  }
}

const nonceOf = ({ nonce }: StoredTx): number => nonce

interface Sighting {
  readonly block: bigint
  readonly at: number
}

/** Since when something is so of each nonce; where it is not so any more it is forgotten. */
function firstSeen() {
  let known: ReadonlyMap<number, Sighting> = new Map()
  return (nonces: readonly number[], now: Sighting): ReadonlyMap<number, Sighting> => {
    known = new Map(nonces.map((nonce) => [nonce, known.get(nonce) ?? now]))
    return known
  }
}
