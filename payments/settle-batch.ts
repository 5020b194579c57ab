import { codeOn, type Call, type EvmClient } from '../chain/evm.ts'
import { triedTogether } from '../chain/multicall.ts'
import type { Clock } from '../core/clock.ts'
import type { StoredTx } from '../persistence/settler-lane.ts'
import type { Transmitter } from './transmitter.ts'

export interface BatchParts {
  readonly client: EvmClient
  readonly transmitter: Pick<
    Transmitter,
    'address' | 'fees' | 'known' | 'prepare' | 'prepareTogether'
  >
  readonly clock: Pick<Clock, 'mono'>
}

interface Due {
  readonly purpose: string
  readonly payer: string
  readonly call: Call
  readonly resolve: (tx: StoredTx | PromiseLike<StoredTx>) => void
  readonly reject: (error: unknown) => void
}

/** 4 million units of gas, which every chain has room for. */
const MOST = 32
/** A batch begins at most so often: what is due meanwhile goes with the next one. */
const PACE_MS = 250
/**
 * A transfer by authorization takes half of that; the calls are tried within exactly the gas that is
 * signed, so a token that takes more is found out, and its payments go one by one.
 */
const GAS = { once: 80_000n, each: 120_000n }
const gasOf = (members: number): bigint => GAS.once + GAS.each * BigInt(members)

/**
 * Puts payments that are due at the same time into one transaction. A lone one goes at once and
 * directly, and so does whatever would fail among others, or was tried before: an attempt that
 * failed in a batch is not repeated in one. A payer with code goes alone, too: what it does when it is
 * asked for its signature may change until the block, and use up the gas of all the others. Throws
 * `WouldRevert` as `prepare` does.
 */
export function batching({ client, transmitter, clock }: BatchParts) {
  const waiting: Due[] = []
  let [begunAt, running] = [-Infinity, false]
  let timer: NodeJS.Timeout | null = null

  function soon(): void {
    if (running || waiting.length === 0) return
    const full = waiting.length >= MOST
    if (timer !== null && !full) return
    if (timer !== null) clearTimeout(timer)
    const rest = full ? 0 : Math.max(0, begunAt + PACE_MS - clock.mono())
    timer = setTimeout(() => void begin(), rest)
  }

  async function begin(): Promise<void> {
    ;[timer, running, begunAt] = [null, true, clock.mono()]
    const some = waiting.splice(0, MOST)
    try {
      await place(some)
    } catch (error) {
      for (const { reject } of some) reject(error)
    }
    running = false
    soon()
  }

  /** Answers everybody; rejects when nobody can be answered. */
  async function place(some: readonly Due[]): Promise<void> {
    const fits = some.length > 1 ? await fitting(some) : []
    const calls = new Map(fits.map(({ purpose, call }) => [purpose, call]))
    for (const one of some) if (!calls.has(one.purpose)) alone(one)
    if (calls.size === 0) return
    const made = await transmitter.prepareTogether(calls, gasOf)
    for (const { purpose, resolve } of fits) resolve(made.get(purpose) as StoredTx)
  }

  const alone = ({ purpose, call, resolve }: Due): void =>
    resolve(transmitter.prepare(purpose, call))

  async function fitting(some: readonly Due[]): Promise<readonly Due[]> {
    const [known, codes] = await Promise.all([
      transmitter.known(some.map(({ purpose }) => purpose)),
      Promise.all(some.map(({ payer }) => codeOn(client, payer))),
    ])
    const fresh = some.filter(({ purpose }, at) => !known.has(purpose) && codes[at] === false)
    return fresh.length > 1 ? tried(fresh) : []
  }

  /** Those that succeed in each other's company; one by itself is no company. */
  async function tried(some: readonly Due[]): Promise<readonly Due[]> {
    const fees = await transmitter.fees()
    const bounds = { from: transmitter.address, gas: gasOf(some.length), fees }
    const calls = some.map(({ call }) => call)
    const good = await triedTogether(client, calls, bounds)
    const fits = some.filter((_, at) => good?.[at] === true)
    return fits.length > 1 ? fits : []
  }

  return (one: Pick<Due, 'purpose' | 'payer' | 'call'>): Promise<StoredTx> =>
    new Promise((resolve, reject) => {
      waiting.push({ ...one, resolve, reject })
      soon()
    })
}
