import { hasContractCode, type EvmCall, type EvmClient } from '../../chain/evm/evm-client.ts'
import { simulateMulticallBatch } from '../../chain/evm/multicall.ts'
import type { Clock } from '../../core/clock.ts'
import type { StoredSettlerTransaction } from '../../persistence/payments/settler-transaction-store.ts'
import type { SettlerTransactionSender } from './settler-transaction-sender.ts'

/** Combines due payments into one transaction. */

export interface SettlementTransactionBatcherDeps {
  readonly client: EvmClient
  readonly transmitter: Pick<
    SettlerTransactionSender,
    'address' | 'fees' | 'known' | 'prepare' | 'prepareTogether'
  >
  readonly clock: Pick<Clock, 'mono'>
}

interface DuePayment {
  readonly purpose: string
  readonly payer: string
  readonly call: EvmCall
  readonly resolve: (tx: StoredSettlerTransaction | PromiseLike<StoredSettlerTransaction>) => void
  readonly reject: (error: unknown) => void
}

/** 4 million units of gas, which fit into a block of every chain. */
const MAX_BATCH_PAYMENTS = 32
/** Minimum interval between batches; payments due meanwhile join the next one. */
const MIN_BATCH_INTERVAL_MS = 250
/**
 * A transfer by authorization takes half of that. The simulation uses exactly the signed gas, so a
 * token that needs more is detected, and its payments are sent alone.
 */
const BATCH_GAS = { once: 80_000n, each: 120_000n }
const batchGas = (members: number): bigint => BATCH_GAS.once + BATCH_GAS.each * BigInt(members)

/**
 * Puts payments that are due at the same time into one transaction. A single payment is sent at
 * once and directly. So is a payment that would fail in a batch or was tried before: a failed batch
 * member is not batched again. A payer with code is sent alone, too: its signature check may change
 * until the block and use up the gas of the others. Throws `WouldRevertError` as `prepare` does.
 */
export function createSettlementTransactionBatcher({
  client,
  transmitter,
  clock,
}: SettlementTransactionBatcherDeps) {
  const waiting: DuePayment[] = []
  let [begunAt, running] = [-Infinity, false]
  let timer: NodeJS.Timeout | null = null

  function soon(): void {
    if (running || waiting.length === 0) return
    const full = waiting.length >= MAX_BATCH_PAYMENTS
    if (timer !== null && !full) return
    if (timer !== null) clearTimeout(timer)
    const rest = full ? 0 : Math.max(0, begunAt + MIN_BATCH_INTERVAL_MS - clock.mono())
    timer = setTimeout(() => void begin(), rest)
  }

  async function begin(): Promise<void> {
    ;[timer, running, begunAt] = [null, true, clock.mono()]
    const some = waiting.splice(0, MAX_BATCH_PAYMENTS)
    try {
      await place(some)
    } catch (error) {
      for (const { reject } of some) reject(error)
    }
    running = false
    soon()
  }

  /** Resolves or rejects each payment; rejects only if none can be answered. */
  async function place(some: readonly DuePayment[]): Promise<void> {
    const fits = some.length > 1 ? await fitting(some) : []
    const calls = new Map(fits.map(({ purpose, call }) => [purpose, call]))
    for (const one of some) if (!calls.has(one.purpose)) alone(one)
    if (calls.size === 0) return
    const made = await transmitter.prepareTogether(calls, batchGas)
    for (const { purpose, resolve } of fits) resolve(made.get(purpose) as StoredSettlerTransaction)
  }

  const alone = ({ purpose, call, resolve }: DuePayment): void =>
    resolve(transmitter.prepare(purpose, call))

  async function fitting(some: readonly DuePayment[]): Promise<readonly DuePayment[]> {
    const [known, codes] = await Promise.all([
      transmitter.known(some.map(({ purpose }) => purpose)),
      Promise.all(some.map(({ payer }) => hasContractCode(client, payer))),
    ])
    const fresh = some.filter(({ purpose }, at) => !known.has(purpose) && codes[at] === false)
    return fresh.length > 1 ? tried(fresh) : []
  }

  /** The payments that succeed together; a single one is no batch. */
  async function tried(some: readonly DuePayment[]): Promise<readonly DuePayment[]> {
    const fees = await transmitter.fees()
    const bounds = { from: transmitter.address, gas: batchGas(some.length), fees }
    const calls = some.map(({ call }) => call)
    const good = await simulateMulticallBatch(client, calls, bounds)
    const fits = some.filter((_, at) => good?.[at] === true)
    return fits.length > 1 ? fits : []
  }

  return (one: Pick<DuePayment, 'purpose' | 'payer' | 'call'>): Promise<StoredSettlerTransaction> =>
    new Promise((resolve, reject) => {
      waiting.push({ ...one, resolve, reject })
      soon()
    })
}
