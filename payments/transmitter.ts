import { parseTransaction, type PrivateKeyAccount } from 'viem'
import { revertOf, type Call, type EvmClient } from '../chain/evm.ts'
import { membersOf, together, triedTogether } from '../chain/multicall.ts'
import type { Hex } from '../chain/payment.ts'
import {
  broadcast,
  BroadcastRefused,
  bumped,
  estimate,
  feesNow,
  higher,
  lower,
  times,
  signCall,
  type Fees,
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
  const care = upkeep({ ...parts, own, fees, outcomes, send, push, patienceMs: PATIENCE_MS })

  async function newest(purpose: string): Promise<StoredTx | null> {
    return (await lane.newest(chain, [purpose])).get(purpose) ?? null
  }

  /**
   * Signs and stores a call for a purpose, unless one is under way for it. Throws `WouldRevert`
   * before a nonce is given out.
   */
  async function prepare(purpose: string, call: Call): Promise<StoredTx> {
    const before = await newest(purpose)
    if (before?.state === 'signed') return before
    const gas = await estimate(client, account, call)
    return (await take([purpose], () => ({ ...call, gas }))).get(purpose) as StoredTx
  }

  async function take(purposes: readonly string[], callOf: CallOf) {
    const [at] = await Promise.all([fees(), care.reconciled()])
    return lane.take(own, purposes, newId(clock.now()), signer(parts, callOf, at))
  }

  /** On the latest block: an estimate may count what is pending, this very transaction too. */
  const wouldRevert = async (call: Call): Promise<boolean> =>
    (await revertOf(client, { ...call, from: address })) !== null

  /** The same call once more at a higher fee, or nothing in its place when it would only revert. */
  async function push(tx: StoredTx): Promise<void> {
    const call = callIn(tx)
    await replace(tx, (await isVain(client, address, call)) ? nothing : call)
  }

  const nothing = { to: address, data: '0x', gas: 21_000n } as const

  async function replace(tx: StoredTx, call: Call & { gas: bigint }): Promise<void> {
    const old = { maxFeePerGas: tx.maxFee, maxPriorityFeePerGas: tx.priorityFee }
    const now = await fees()
    const at = lower(higher(bumped(old), now), times(now, MOST_OVER_MARKET))
    // As high as it may be already: the node gets the same one again.
    if (at.maxFeePerGas === old.maxFeePerGas && callIn(tx).data === call.data) {
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
    look: outcomes.look,
    wait: outcomes.wait,
    tend: care.tend,
    healthy: care.healthy,

    /** The transactions that any node has made for these purposes, whatever became of them. */
    known: (purposes: readonly string[]) => lane.newest(chain, purposes),

    /**
     * Signs and stores one transaction of several calls, which were tried together before, for those
     * purposes that nothing is under way for; answers with the transaction of each.
     */
    prepareTogether(calls: ReadonlyMap<string, Call>, gasOf: (members: number) => bigint) {
      return take([...calls.keys()], (purposes) => {
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
    /** Throws `WouldRevert`, as `prepare` would. */
    estimate: (call: Call) => estimate(client, account, call),
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
  { to, data, gas }: Call & { gas: bigint },
): Promise<boolean> {
  const members = membersOf({ to, data })
  if (members === null) return (await revertOf(client, { to, data, from })) !== null
  const good = await triedTogether(client, members, { from, gas })
  return good !== null && !good.includes(true)
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
