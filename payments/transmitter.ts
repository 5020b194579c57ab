import { parseTransaction, type PrivateKeyAccount, type TransactionReceipt } from 'viem'
import { revertOf, type Call, type EvmClient } from '../chain/evm.ts'
import type { Hex } from '../chain/payment.ts'
import {
  broadcast,
  BroadcastRefused,
  bumped,
  estimate,
  feesNow,
  gasBalance,
  receiptOf,
  signCall,
} from '../chain/transactions.ts'
import type { Clock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import type { SettlerLane, Sign, StoredTx } from '../persistence/settler-lane.ts'

export interface TransmitterParts {
  /** The name of the chain in the ledger. */
  readonly chain: string
  readonly client: EvmClient
  readonly account: PrivateKeyAccount
  readonly lane: SettlerLane
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
}

/** What a chain says of the transactions for a purpose. */
export interface Verdict {
  readonly state: 'mined' | 'reverted' | 'void' | 'open'
  readonly receipt: TransactionReceipt | null
}

/** A transaction that no block has after so long is sent again, and at a higher fee after twice that. */
const PATIENCE_MS = 12_000
const BUMP_MS = 30_000
const UNCONFIRMED = 200
/** Below so many transfers of gas, nothing runs before its payment settles. */
const TRANSFERS_LEFT = 20n
const TRANSFER_GAS = 100_000n

/**
 * Sends the transactions of one key on one chain. Whatever is sent was stored with its nonce before,
 * and a nonce that was given out is used: a gap would hold up everything behind it.
 */
export function transmitter(parts: TransmitterParts) {
  const { chain, client, account, lane, clock, log } = parts
  const address = account.address.toLowerCase()
  const own = { chain, address }
  let ready: Promise<number> | null = null
  let healthy = false

  const confirmedCount = () =>
    client.getTransactionCount({ address: account.address, blockTag: 'latest' })

  /** The lane's next nonce is never behind the chain's. */
  function reconciled(): Promise<number> {
    ready ??= confirmedCount()
      .then((confirmed) => lane.reconcile(own, confirmed))
      .catch((error: unknown) => {
        ready = null
        throw error
      })
    return ready
  }

  const signer =
    (call: Call, gas: bigint, fees: Awaited<ReturnType<typeof feesNow>>): Sign =>
    async (nonce) => {
      const signed = await signCall(client, account, { ...call, nonce, gas, fees })
      const { raw, hash, maxFeePerGas: maxFee, maxPriorityFeePerGas: priorityFee } = signed
      return { raw, hash, maxFee, priorityFee }
    }

  /**
   * Signs and stores a call for a purpose, unless one is under way for it. Throws `WouldRevert`
   * before a nonce is given out.
   */
  async function prepare(purpose: string, call: Call): Promise<StoredTx> {
    const before = await lane.newest(chain, purpose)
    if (before?.state === 'signed') return before
    const [gas, fees] = await Promise.all([
      estimate(client, account, call),
      feesNow(client),
      reconciled(),
    ])
    return lane.take(own, purpose, newId(clock.now()), signer(call, gas, fees))
  }

  /** Hands a stored transaction to the node; false when the node will not have it now. */
  async function send({ raw, hash }: StoredTx): Promise<boolean> {
    try {
      await broadcast(client, raw as Hex)
      return true
    } catch (error) {
      if (!(error instanceof BroadcastRefused)) throw error
      if (/insufficient funds/i.test(error.reason)) healthy = false
      log(`the node of ${chain} refuses ${hash}`, error)
      return false
    }
  }

  /** What became of a purpose; any transaction that was ever signed for it may have been mined. */
  async function look(purpose: string): Promise<Verdict> {
    // A new attempt is made only when nothing can come of the one before.
    const every = await lane.all(chain, purpose)
    const all = every.filter(({ attempt }) => attempt === every[0]?.attempt)
    for (const tx of all) {
      if (tx.state === 'reverted' || tx.state === 'void') continue
      const receipt = await receiptOf(client, tx.hash as Hex)
      if (receipt !== null) return { state: await noted(all, tx, receipt), receipt }
    }
    const state = all[0]?.state
    return { state: state === 'reverted' || state === 'void' ? state : 'open', receipt: null }
  }

  /** Keeps what a block said, on the row that holds the nonce now. */
  async function noted(all: readonly StoredTx[], tx: StoredTx, receipt: TransactionReceipt) {
    const state = isCancel(tx) ? 'void' : receipt.status === 'success' ? 'mined' : 'reverted'
    const holder = all.find((one) => one.nonce === tx.nonce && one.state === 'signed')
    await lane.mark((holder ?? tx).id, state)
    return state
  }

  const isCancel = ({ raw }: StoredTx): boolean =>
    parseTransaction(raw as Hex).to?.toLowerCase() === address

  const ageOf = ({ createdAt }: StoredTx): number => clock.now() - createdAt.getTime()

  /** The same call once more at a higher fee, or nothing in its place when it would only revert. */
  async function push(tx: StoredTx): Promise<void> {
    const { to, data = '0x', gas = 0n } = parseTransaction(tx.raw as Hex)
    const call = { to: to ?? address, data }
    await replace(tx, (await wouldRevert(call)) ? nothing : { ...call, gas })
  }

  /** On the latest block: an estimate may count what is pending, this very transaction too. */
  const wouldRevert = async (call: Call): Promise<boolean> =>
    (await revertOf(client, { ...call, from: address })) !== null

  /** Gives up a transaction that has not been mined: its nonce goes to a transfer of nothing. */
  async function cancel(purpose: string): Promise<void> {
    const tx = await lane.newest(chain, purpose)
    if (tx?.state === 'signed' && !isCancel(tx)) await replace(tx, nothing)
  }

  const nothing = { to: address, data: '0x', gas: 21_000n } as const

  async function replace(tx: StoredTx, call: Call & { gas: bigint }): Promise<void> {
    const old = { maxFeePerGas: tx.maxFee, maxPriorityFeePerGas: tx.priorityFee }
    const fees = higher(bumped(old), await feesNow(client))
    const made = await lane.replace(own, tx, newId(clock.now()), signer(call, call.gas, fees))
    if (made !== null) await send(made)
  }

  /** Looks after everything that was stored and is in no block, in the order of the nonces. */
  async function tend(): Promise<void> {
    const confirmed = await confirmedCount()
    await lane.reconcile(own, confirmed)
    for (const tx of await lane.unconfirmed(own, UNCONFIRMED)) {
      const age = ageOf(tx)
      if (tx.nonce < confirmed) {
        const { state, receipt } = await look(tx.purpose)
        // Its nonce went to a transaction that is none of ours.
        if (state === 'open' && receipt === null && age > PATIENCE_MS) {
          await lane.mark(tx.id, 'void')
          log(`the nonce ${tx.nonce} of ${address} on ${chain} was used elsewhere`, null)
        }
      } else if (age > BUMP_MS) await push(tx)
      else if (age > PATIENCE_MS) await send(tx)
    }
    await measure()
  }

  async function measure(): Promise<void> {
    const [left, { maxFeePerGas }] = await Promise.all([
      gasBalance(client, address),
      feesNow(client),
    ])
    const enough = left >= TRANSFERS_LEFT * TRANSFER_GAS * maxFeePerGas
    if (healthy && !enough) log(`the settler ${address} runs out of gas on ${chain}: ${left}`, null)
    healthy = enough
  }

  return {
    address,
    prepare,
    send,
    look,
    cancel,
    /** Sent lately, perhaps by another node: it is given time before anything else is done. */
    isFresh: (tx: StoredTx) => ageOf(tx) < PATIENCE_MS,
    newest: (purpose: string) => lane.newest(chain, purpose),
    /** Throws `WouldRevert`, as `prepare` would. */
    estimate: (call: Call) => estimate(client, account, call),
    wouldRevert,
    async tend(): Promise<void> {
      try {
        await tend()
      } catch (error) {
        healthy = false
        throw error
      }
    },
    /** The node answers and there is gas for a while. */
    healthy: () => healthy,
  }
}
export type Transmitter = ReturnType<typeof transmitter>

type Fees = Awaited<ReturnType<typeof feesNow>>
const higher = (a: Fees, b: Fees): Fees => ({
  maxFeePerGas: a.maxFeePerGas > b.maxFeePerGas ? a.maxFeePerGas : b.maxFeePerGas,
  maxPriorityFeePerGas:
    a.maxPriorityFeePerGas > b.maxPriorityFeePerGas
      ? a.maxPriorityFeePerGas
      : b.maxPriorityFeePerGas,
})
