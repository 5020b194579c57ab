import { parseTransaction, type PrivateKeyAccount } from 'viem'
import {
  simulateCallForRevertReason,
  type EvmCall,
  type EvmClient,
  type Eip1559Fees,
} from '../../chain/evm/evm-client.ts'
import {
  decodeMulticallCalls,
  encodeMulticall,
  simulateMulticallBatch,
} from '../../chain/evm/multicall.ts'
import type { HexString } from '../../chain/onchain-payment-types.ts'
import {
  broadcastSignedTransaction,
  BroadcastRejectedError,
  toReplacementFees,
  estimateGasOrThrow,
  readCurrentEip1559Fees,
  higherOfEachEip1559Fee,
  scaleEip1559Fees,
  signEvmCall,
  MAX_TRANSACTION_GAS,
} from '../../chain/evm/settler-evm-transactions.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import type {
  SettlerTransactionStore,
  SettlerTransactionSigner,
  StoredSettlerTransaction,
} from '../../persistence/payments/settler-transaction-store.ts'
import { createSettlerKeyMonitor } from './settler-key-monitor.ts'
import { createSettlerTransactionOutcomeFinder } from './settler-transaction-outcomes.ts'

/** Signs, stores and sends the transactions of one key on one chain. */

export interface SettlerTransactionSenderDeps {
  /** The ledger's name of the chain. */
  readonly chain: string
  readonly client: EvmClient
  readonly account: PrivateKeyAccount
  readonly transactions: SettlerTransactionStore
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
  /** Ends the monitoring of the key. */
  readonly signal: AbortSignal
}

/** A transaction that is in no block after this is sent again. */
const RESEND_AFTER_MS = 12_000
/** Fees hold for some blocks: they leave room for the base fee to double. */
const FEES_MAX_AGE_MS = SECOND
/** Limits fee bumps while nothing is mined: otherwise the nonce could become unusable. */
const MAX_FEE_OVER_MARKET_FACTOR = 4n

/**
 * Creates the sender. A transaction is stored with its nonce before it is sent, and every nonce
 * given out is used: a gap would block all later ones.
 */
export function createSettlerTransactionSender(parts: SettlerTransactionSenderDeps) {
  const { chain, client, account, transactions, clock, log } = parts
  const address = account.address.toLowerCase()
  const own = { chain, address }
  const outcomes = createSettlerTransactionOutcomeFinder(chain, client, transactions)
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
   * Signs and stores a call for a purpose, unless one is pending or was made meanwhile, also by
   * another node. Throws `WouldRevertError` before a nonce is given out.
   */
  async function prepare(purpose: string, call: EvmCall): Promise<StoredSettlerTransaction> {
    const before = await newest(purpose)
    if (before?.state === 'signed') return before
    const gas = await gasFor(call).catch(async (error: unknown) => {
      // It may revert because the same call was made meanwhile.
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

  /** On the latest block: an estimate may include pending transactions, also this one. */
  async function wouldRevert(call: EvmCall, tx: StoredSettlerTransaction): Promise<boolean> {
    const signed = parseSignedCall(tx)
    const gas = decodeMulticallCalls(signed) === null ? signed.gas : MAX_TRANSACTION_GAS
    return (
      (await simulateCallForRevertReason(client, {
        ...call,
        from: address,
        gas,
        fees: await fees(),
      })) !== null
    )
  }

  /** At one block number: throws if the node does not have it. */
  const revertsAt = async (call: EvmCall, block: bigint): Promise<boolean> => {
    const priced = { ...call, from: address, gas: MAX_TRANSACTION_GAS, fees: await fees() }
    return (await simulateCallForRevertReason(client, priced, block)) !== null
  }

  /** Sends the same call at a higher fee, or cancels it if it would only revert. */
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
    const at = higherOfEachEip1559Fee(toReplacementFees(old), now)
    const isSame = parseSignedCall(tx).data === call.data
    // Nodes reject a smaller increase; a cancellation replaces the call once at most.
    if (
      isSame &&
      at.maxFeePerGas > scaleEip1559Fees(now, MAX_FEE_OVER_MARKET_FACTOR).maxFeePerGas
    ) {
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

    /** The transactions that any node has made for these purposes, with any outcome. */
    known: (purposes: readonly string[]) => transactions.newest(chain, purposes),

    /**
     * Signs and stores one transaction of several simulated calls, for the purposes without a
     * transaction so far; returns the transaction of each.
     */
    prepareTogether(calls: ReadonlyMap<string, EvmCall>, gasOf: (members: number) => bigint) {
      const seen = new Map([...calls.keys()].map((purpose) => [purpose, null]))
      return take(seen, (purposes) => {
        const members = purposes.map((purpose) => calls.get(purpose) as EvmCall)
        return { ...toMulticall(members), gas: gasOf(members.length) }
      })
    },

    /**
     * Cancels a transaction that is not mined: its nonce goes to an empty transfer. Batches, and
     * transactions of other keys, are left alone.
     */
    async cancel(purpose: string): Promise<void> {
      const tx = await newest(purpose)
      if (tx?.state !== 'signed' || tx.settler !== address) return
      const call = parseSignedCall(tx)
      if (call.to !== address && decodeMulticallCalls(call) === null) await replace(tx, nothing)
    },

    /** Sent recently, perhaps by another node: wait before acting on it. */
    isFresh: ({ createdAt }: StoredSettlerTransaction) =>
      clock.now() - createdAt.getTime() < RESEND_AFTER_MS,
    estimate: gasFor,
    /** Fees for a transaction signed now. */
    fees,
  }
}
export type SettlerTransactionSender = ReturnType<typeof createSettlerTransactionSender>

/** Builds the call for the purposes without a pending transaction. */
type CallForPurposes = (purposes: readonly string[]) => EvmCall & { gas: bigint }

const createSigner =
  (
    { client, account }: SettlerTransactionSenderDeps,
    callOf: CallForPurposes,
    fees: Eip1559Fees,
  ): SettlerTransactionSigner =>
  async (nonce, purposes) => {
    const { gas, ...call } = callOf(purposes)
    const signed = await signEvmCall(client, account, { ...call, nonce, gas, fees })
    const { raw, hash, maxFeePerGas: maxFee, maxPriorityFeePerGas: priorityFee } = signed
    return { raw, hash, maxFee, priorityFee }
  }

/** Whether no member of a transaction would succeed any more. */
async function wouldFullyRevert(
  client: EvmClient,
  from: string,
  { to, data, gas, fees }: EvmCall & { gas: bigint; fees: Eip1559Fees },
): Promise<boolean> {
  const members = decodeMulticallCalls({ to, data })
  if (members === null)
    return (await simulateCallForRevertReason(client, { to, data, from, gas, fees })) !== null
  const good = await simulateMulticallBatch(client, members, { from, gas, fees })
  return good === null || !good.includes(true)
}

/** Several calls as one, each of which may fail. */
const toMulticall = (calls: readonly EvmCall[]): EvmCall =>
  encodeMulticall(calls.map(({ to, data }) => ({ to, data, fails: 'may' })))

function parseSignedCall({ raw, settler }: StoredSettlerTransaction): EvmCall & { gas: bigint } {
  const { to, data = '0x', gas = 0n } = parseTransaction(raw as HexString)
  return { to: (to ?? settler).toLowerCase(), data, gas }
}

/** Caches the fees for a short time; failed reads are not cached. */
function createFeeCache(client: EvmClient, clock: Clock): () => Promise<Eip1559Fees> {
  let [known, readAt] = [null as Promise<Eip1559Fees> | null, 0]
  return () => {
    if (known !== null && clock.mono() - readAt < FEES_MAX_AGE_MS) return known
    const reading = readCurrentEip1559Fees(client)
    ;[known, readAt] = [reading, clock.mono()]
    reading.catch(() => (known = null))
    return reading
  }
}

/**
 * Broadcasts stored transactions; false if the node rejects one for now. Concurrent sends of the
 * same transaction, which may carry many payments, share the answer.
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
