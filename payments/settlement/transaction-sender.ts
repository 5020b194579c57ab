import { parseTransaction, type PrivateKeyAccount } from 'viem'
import {
  findRevertReason,
  type EvmCall,
  type EvmClient,
  type Eip1559Fees,
} from '../../chain/evm/evm-client.ts'
import {
  decodeMulticallEntries,
  encodeMulticall,
  simulateCallBatch,
} from '../../chain/evm/multicall.ts'
import type { HexString } from '../../chain/payment.ts'
import {
  broadcastSignedTransaction,
  BroadcastRejectedError,
  toReplacementFees,
  estimateGasOrThrow,
  readCurrentFees,
  maxFeesOf,
  scaleFees,
  signEvmCall,
  MAX_TRANSACTION_GAS,
} from '../../chain/evm/transactions.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids.ts'
import type {
  SettlerTransactionStore,
  SettlerTransactionSigner,
  StoredSettlerTransaction,
} from '../../persistence/payments/settler-transaction-store.ts'
import { createSettlerKeyMonitor } from './settler-key-monitor.ts'
import { createTransactionOutcomes } from './transaction-outcomes.ts'

export interface TransactionSenderDeps {
  /** The name of the chain in the ledger. */
  readonly chain: string
  readonly client: EvmClient
  readonly account: PrivateKeyAccount
  readonly transactions: SettlerTransactionStore
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  /** Ends looking after the key. */
  readonly signal: AbortSignal
}

/** A transaction that no block has after so long is sent again. */
const RESEND_AFTER_MS = 12_000
/** Fees hold for some blocks: they leave room for the base fee to double. */
const FEES_MAX_AGE_MS = SECOND
/** While nothing is taken, fees do not climb for ever: the nonce could never be used again. */
const MAX_FEE_OVER_MARKET_FACTOR = 4n

/**
 * Sends the transactions of one key on one chain. Whatever is sent was stored with its nonce before,
 * and a nonce that was given out is used: a gap would hold up everything behind it.
 */
export function createTransactionSender(parts: TransactionSenderDeps) {
  const { chain, client, account, transactions, clock, log } = parts
  const address = account.address.toLowerCase()
  const own = { chain, address }
  const outcomes = createTransactionOutcomes(chain, client, transactions)
  const fees = createFeeCache(client, clock)
  const send = createCoalescedBroadcast(client, (error, { hash }) => {
    if (/insufficient funds/i.test(error.reason)) care.noGas()
    log(`the node of ${chain} refuses ${hash}`, error)
  })
  const replacing = { push, drop: (tx: StoredSettlerTransaction) => replace(tx, nothing) }
  const care = createSettlerKeyMonitor({
    ...parts,
    ...replacing,
    own,
    fees,
    outcomes,
    send,
    patienceMs: RESEND_AFTER_MS,
  })

  async function newest(purpose: string): Promise<StoredSettlerTransaction | null> {
    return (await transactions.newest(chain, [purpose])).get(purpose) ?? null
  }

  /**
   * Signs and stores a call for a purpose, unless one is under way for it or was made meanwhile:
   * another node may be faster, down to the block. Throws `WouldRevertError` before a nonce is given out.
   */
  async function prepare(purpose: string, call: EvmCall): Promise<StoredSettlerTransaction> {
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
    return (await take(seen, () => ({ ...call, gas }))).get(purpose) as StoredSettlerTransaction
  }

  async function take(
    seen: ReadonlyMap<string, StoredSettlerTransaction | null>,
    callOf: CallForPurposes,
  ) {
    const [at] = await Promise.all([fees(), care.reconciled()])
    return transactions.take(own, seen, newUuidV7(clock.now()), createSigner(parts, callOf, at))
  }

  /** Throws `WouldRevertError`, as `prepare` does. */
  const gasFor = async (call: EvmCall): Promise<bigint> =>
    estimateGasOrThrow(client, account, { ...call, fees: await fees() })

  /** On the latest block: an estimate may count what is pending, this very transaction too. */
  async function wouldRevert(call: EvmCall, tx: StoredSettlerTransaction): Promise<boolean> {
    const signed = parseSignedCall(tx)
    const gas = decodeMulticallEntries(signed) === null ? signed.gas : MAX_TRANSACTION_GAS
    return (
      (await findRevertReason(client, { ...call, from: address, gas, fees: await fees() })) !== null
    )
  }

  /** On one block, by its number: a node that does not have it throws. */
  const revertsAt = async (call: EvmCall, block: bigint): Promise<boolean> => {
    const priced = { ...call, from: address, gas: MAX_TRANSACTION_GAS, fees: await fees() }
    return (await findRevertReason(client, priced, block)) !== null
  }

  /** The same call once more at a higher fee, or nothing in its place when it would only revert. */
  async function push(tx: StoredSettlerTransaction): Promise<void> {
    const call = parseSignedCall(tx)
    const vain = await wouldFullyRevert(client, address, { ...call, fees: await fees() })
    await replace(tx, vain ? nothing : call)
  }

  const nothing = { to: address, data: '0x', gas: 21_000n } as const

  async function replace(
    tx: StoredSettlerTransaction,
    call: EvmCall & { gas: bigint },
  ): Promise<void> {
    const now = await fees()
    const old = { maxFeePerGas: tx.maxFee, maxPriorityFeePerGas: tx.priorityFee }
    const at = maxFeesOf(toReplacementFees(old), now)
    const isSame = parseSignedCall(tx).data === call.data
    // Less of a rise would be refused, and another call takes its place once at most.
    if (isSame && at.maxFeePerGas > scaleFees(now, MAX_FEE_OVER_MARKET_FACTOR).maxFeePerGas) {
      await send(tx)
      return
    }
    const sign = createSigner(parts, () => call, at)
    const made = await transactions.replace(own, tx, newUuidV7(clock.now()), sign)
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
    known: (purposes: readonly string[]) => transactions.newest(chain, purposes),

    /**
     * Signs and stores one transaction of several calls, which were tried together before, for those
     * purposes that nothing was made for until now; answers with the transaction of each.
     */
    prepareTogether(calls: ReadonlyMap<string, EvmCall>, gasOf: (members: number) => bigint) {
      const seen = new Map([...calls.keys()].map((purpose) => [purpose, null]))
      return take(seen, (purposes) => {
        const members = purposes.map((purpose) => calls.get(purpose) as EvmCall)
        return { ...toMulticall(members), gas: gasOf(members.length) }
      })
    },

    /**
     * Gives up a transaction that has not been mined: its nonce goes to a transfer of nothing. What
     * carries several purposes is left alone, and so is what another key has signed.
     */
    async cancel(purpose: string): Promise<void> {
      const tx = await newest(purpose)
      if (tx?.state !== 'signed' || tx.settler !== address) return
      const call = parseSignedCall(tx)
      if (call.to !== address && decodeMulticallEntries(call) === null) await replace(tx, nothing)
    },

    /** Sent lately, perhaps by another node: it is given time before anything else is done. */
    isFresh: ({ createdAt }: StoredSettlerTransaction) =>
      clock.now() - createdAt.getTime() < RESEND_AFTER_MS,
    estimate: gasFor,
    /** What it would be signed at now. */
    fees,
  }
}
export type TransactionSender = ReturnType<typeof createTransactionSender>

/** The call for those purposes that nothing is under way for. */
type CallForPurposes = (purposes: readonly string[]) => EvmCall & { gas: bigint }

const createSigner =
  (
    { client, account }: TransactionSenderDeps,
    callOf: CallForPurposes,
    fees: Eip1559Fees,
  ): SettlerTransactionSigner =>
  async (nonce, purposes) => {
    const { gas, ...call } = callOf(purposes)
    const signed = await signEvmCall(client, account, { ...call, nonce, gas, fees })
    const { raw, hash, maxFeePerGas: maxFee, maxPriorityFeePerGas: priorityFee } = signed
    return { raw, hash, maxFee, priorityFee }
  }

/** A transaction of which nothing would succeed any more. */
async function wouldFullyRevert(
  client: EvmClient,
  from: string,
  { to, data, gas, fees }: EvmCall & { gas: bigint; fees: Eip1559Fees },
): Promise<boolean> {
  const members = decodeMulticallEntries({ to, data })
  if (members === null)
    return (await findRevertReason(client, { to, data, from, gas, fees })) !== null
  const good = await simulateCallBatch(client, members, { from, gas, fees })
  return good === null || !good.includes(true)
}

/** Several calls as one, each of which may fail. */
const toMulticall = (calls: readonly EvmCall[]): EvmCall =>
  encodeMulticall(calls.map(({ to, data }) => ({ to, data, fails: 'may' })))

function parseSignedCall({ raw, settler }: StoredSettlerTransaction): EvmCall & { gas: bigint } {
  const { to, data = '0x', gas = 0n } = parseTransaction(raw as HexString)
  return { to: (to ?? settler).toLowerCase(), data, gas }
}

/** Reads the fees at most once in a while; a reading that fails is not kept. */
function createFeeCache(client: EvmClient, clock: Clock): () => Promise<Eip1559Fees> {
  let [known, readAt] = [null as Promise<Eip1559Fees> | null, 0]
  return () => {
    if (known !== null && clock.mono() - readAt < FEES_MAX_AGE_MS) return known
    const reading = readCurrentFees(client)
    ;[known, readAt] = [reading, clock.mono()]
    reading.catch(() => (known = null))
    return reading
  }
}

/**
 * Hands stored transactions to the node; false when the node will not have one now. Whoever sends the
 * same one meanwhile shares the answer: it may carry the payments of many.
 */
function createCoalescedBroadcast(
  client: EvmClient,
  refused: (error: BroadcastRejectedError, tx: StoredSettlerTransaction) => void,
): (tx: StoredSettlerTransaction) => Promise<boolean> {
  const underWay = new Map<string, Promise<boolean>>()

  async function send(tx: StoredSettlerTransaction): Promise<boolean> {
    try {
      await broadcastSignedTransaction(client, tx.raw as HexString)
      return true
    } catch (error) {
      if (!(error instanceof BroadcastRejectedError)) throw error
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
