import { parseTransaction, type PrivateKeyAccount } from 'viem'
import { revertOf, type Call, type EvmClient, type Fees } from '../chain/evm.ts'
import { membersOf, together, triedTogether } from '../chain/multicall.ts'
import type { Hex } from '../chain/payment.ts'
import {
  broadcast,
  BroadcastRefused,
  bumped,
  estimate,
  feesNow,
  higher,
  times,
  signCall,
  MOST_GAS,
} from '../chain/transactions.ts'
import { SECOND, type Clock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import type { SettlerLane, Sign, StoredTx } from '../persistence/settler-lane.ts'
import { upkeep } from './upkeep.ts'
import { verdicts } from './verdicts.ts'

export interface TransmitterParts {
  /** The name of the chain in the ledger. */
  readonly chain: string
  readonly client: EvmClient
  readonly account: PrivateKeyAccount
  readonly lane: SettlerLane
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  /** Ends looking after the key. */
  readonly signal: AbortSignal
}

/** A transaction that no block has after so long is sent again. */
const PATIENCE_MS = 12_000
/** Fees hold for some blocks: they leave room for the base fee to double. */
const FEES_MS = SECOND
/** While nothing is taken, fees do not climb for ever: the nonce could never be used again. */
const MOST_OVER_MARKET = 4n

/**
 * Sends the transactions of one key on one chain. Whatever is sent was stored with its nonce before,
 * and a nonce that was given out is used: a gap would hold up everything behind it.
 */
export function transmitter(parts: TransmitterParts) {
  const { chain, client, account, lane, clock, log } = parts
  const address = account.address.toLowerCase()
  const own = { chain, address }
  const outcomes = verdicts(chain, client, lane)
  const fees = freshFees(client, clock)
  const send = sending(client, (error, { hash }) => {
    if (/insufficient funds/i.test(error.reason)) care.noGas()
    log(`the node of ${chain} refuses ${hash}`, error)
  })
  const replacing = { push, drop: (tx: StoredTx) => replace(tx, nothing) }
  const care = upkeep({
    ...parts,
    ...replacing,
    own,
    fees,
    outcomes,
    send,
    patienceMs: PATIENCE_MS,
  })

  async function newest(purpose: string): Promise<StoredTx | null> {
    return (await lane.newest(chain, [purpose])).get(purpose) ?? null
  }

  /**
   * Signs and stores a call for a purpose, unless one is under way for it or was made meanwhile:
   * another node may be faster, down to the block. Throws `WouldRevert` before a nonce is given out.
   */
  async function prepare(purpose: string, call: Call): Promise<StoredTx> {
    const before = await newest(purpose)
    if (before?.state === 'signed') return before
    const gas = await gasFor(call).catch(async (error: unknown) => {
      // It may revert because the very same call was made meanwhile.
      const made = await newest(purpose)
      if (made === null || made.id === before?.id) throw error
      return made
    })
    if (typeof gas !== 'bigint') return gas
    const seen = new Map([[purpose, before]])
    return (await take(seen, () => ({ ...call, gas }))).get(purpose) as StoredTx
  }

  async function take(seen: ReadonlyMap<string, StoredTx | null>, callOf: CallOf) {
    const [at] = await Promise.all([fees(), care.reconciled()])
    return lane.take(own, seen, newId(clock.now()), signer(parts, callOf, at))
  }

  /** Throws `WouldRevert`, as `prepare` does. */
  const gasFor = async (call: Call): Promise<bigint> =>
    estimate(client, account, { ...call, fees: await fees() })

  /** On the latest block: an estimate may count what is pending, this very transaction too. */
  async function wouldRevert(call: Call, tx: StoredTx): Promise<boolean> {
    const signed = callIn(tx)
    const gas = membersOf(signed) === null ? signed.gas : MOST_GAS
    return (await revertOf(client, { ...call, from: address, gas, fees: await fees() })) !== null
  }

  /** On one block, by its number: a node that does not have it throws. */
  const revertsAt = async (call: Call, block: bigint): Promise<boolean> => {
    const priced = { ...call, from: address, gas: MOST_GAS, fees: await fees() }
    return (await revertOf(client, priced, block)) !== null
  }

  /** The same call once more at a higher fee, or nothing in its place when it would only revert. */
  async function push(tx: StoredTx): Promise<void> {
    const call = callIn(tx)
    const vain = await isVain(client, address, { ...call, fees: await fees() })
    await replace(tx, vain ? nothing : call)
  }

  const nothing = { to: address, data: '0x', gas: 21_000n } as const

  async function replace(tx: StoredTx, call: Call & { gas: bigint }): Promise<void> {
    const now = await fees()
    const old = { maxFeePerGas: tx.maxFee, maxPriorityFeePerGas: tx.priorityFee }
    const at = higher(bumped(old), now)
    const isSame = callIn(tx).data === call.data
    // Less of a rise would be refused, and another call takes its place once at most.
    if (isSame && at.maxFeePerGas > times(now, MOST_OVER_MARKET).maxFeePerGas) {
      await send(tx)
      return
    }
    const sign = signer(parts, () => call, at)
    const made = await lane.replace(own, tx, newId(clock.now()), sign)
    if (made !== null) await send(made)
  }

  return {
    address,
    prepare,
    send,
    newest,
    wouldRevert,
    revertsAt,
    look: outcomes.look,
    wait: outcomes.wait,
    tend: care.tend,
    healthy: care.healthy,

    /** The transactions that any node has made for these purposes, whatever became of them. */
    known: (purposes: readonly string[]) => lane.newest(chain, purposes),

    /**
     * Signs and stores one transaction of several calls, which were tried together before, for those
     * purposes that nothing was made for until now; answers with the transaction of each.
     */
    prepareTogether(calls: ReadonlyMap<string, Call>, gasOf: (members: number) => bigint) {
      const seen = new Map([...calls.keys()].map((purpose) => [purpose, null]))
      return take(seen, (purposes) => {
        const members = purposes.map((purpose) => calls.get(purpose) as Call)
        return { ...shared(members), gas: gasOf(members.length) }
      })
    },

    /**
     * Gives up a transaction that has not been mined: its nonce goes to a transfer of nothing. What
     * carries several purposes is left alone, and so is what another key has signed.
     */
    async cancel(purpose: string): Promise<void> {
      const tx = await newest(purpose)
      if (tx?.state !== 'signed' || tx.settler !== address) return
      const call = callIn(tx)
      if (call.to !== address && membersOf(call) === null) await replace(tx, nothing)
    },

    /** Sent lately, perhaps by another node: it is given time before anything else is done. */
    isFresh: ({ createdAt }: StoredTx) => clock.now() - createdAt.getTime() < PATIENCE_MS,
    estimate: gasFor,
    /** What it would be signed at now. */
    fees,
  }
}
export type Transmitter = ReturnType<typeof transmitter>

/** The call for those purposes that nothing is under way for. */
type CallOf = (purposes: readonly string[]) => Call & { gas: bigint }

const signer =
  ({ client, account }: TransmitterParts, callOf: CallOf, fees: Fees): Sign =>
  async (nonce, purposes) => {
    const { gas, ...call } = callOf(purposes)
    const signed = await signCall(client, account, { ...call, nonce, gas, fees })
    const { raw, hash, maxFeePerGas: maxFee, maxPriorityFeePerGas: priorityFee } = signed
    return { raw, hash, maxFee, priorityFee }
  }

/** A transaction of which nothing would succeed any more. */
async function isVain(
  client: EvmClient,
  from: string,
  { to, data, gas, fees }: Call & { gas: bigint; fees: Fees },
): Promise<boolean> {
  const members = membersOf({ to, data })
  if (members === null) return (await revertOf(client, { to, data, from, gas, fees })) !== null
  const good = await triedTogether(client, members, { from, gas, fees })
  return good === null || !good.includes(true)
}

/** Several calls as one, each of which may fail. */
const shared = (calls: readonly Call[]): Call =>
  together(calls.map(({ to, data }) => ({ to, data, fails: 'may' })))

function callIn({ raw, settler }: StoredTx): Call & { gas: bigint } {
  const { to, data = '0x', gas = 0n } = parseTransaction(raw as Hex)
  return { to: (to ?? settler).toLowerCase(), data, gas }
}

/** Reads the fees at most once in a while; a reading that fails is not kept. */
function freshFees(client: EvmClient, clock: Clock): () => Promise<Fees> {
  let [known, readAt] = [null as Promise<Fees> | null, 0]
  return () => {
    if (known !== null && clock.mono() - readAt < FEES_MS) return known
    const reading = feesNow(client)
    ;[known, readAt] = [reading, clock.mono()]
    reading.catch(() => (known = null))
    return reading
  }
}

/**
 * Hands stored transactions to the node; false when the node will not have one now. Whoever sends the
 * same one meanwhile shares the answer: it may carry the payments of many.
 */
function sending(
  client: EvmClient,
  refused: (error: BroadcastRefused, tx: StoredTx) => void,
): (tx: StoredTx) => Promise<boolean> {
  const underWay = new Map<string, Promise<boolean>>()

  async function send(tx: StoredTx): Promise<boolean> {
    try {
      await broadcast(client, tx.raw as Hex)
      return true
    } catch (error) {
      if (!(error instanceof BroadcastRefused)) throw error
      refused(error, tx)
      return false
    }
  }

  return (tx) => {
    const known = underWay.get(tx.hash)
    if (known !== undefined) return known
    const sent = send(tx).finally(() => underWay.delete(tx.hash))
    underWay.set(tx.hash, sent)
    return sent
  }
}
