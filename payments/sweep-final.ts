import { heads } from '../chain/deposits.ts'
import type { EvmClient } from '../chain/evm.ts'
import { findAuthorization, type Authorization, type Token } from '../chain/usdc.ts'
import type { Clock } from '../core/clock.ts'
import type { Sweep, SweepStore } from '../persistence/sweeps.ts'
import { finalBlock } from './finality.ts'
import type { ChainName } from './ledger.ts'

const MOST_AT_ONCE = 20

interface Parts {
  readonly chain: ChainName
  readonly client: EvmClient
  readonly token: Token
  readonly store: SweepStore
  readonly clock: Pick<Clock, 'now'>
  readonly log: (message: string, error: unknown) => void
}

/**
 * Looks after sweeps that the chain has until their blocks are final; `push` brings on one that is
 * under way again, `late` hears of one that has to wait.
 */
export function confirming(
  { chain, client, token, store, clock, log }: Parts,
  push: (sweep: Sweep) => Promise<void>,
  late: (sweep: Sweep) => (error: unknown) => void,
) {
  /**
   * Looks once more where a sweep stands whose block should be final by now. One that a reorganisation
   * has moved or dropped is under way again.
   */
  async function confirm(sweep: Sweep): Promise<void> {
    const { swept, terms } = sweep
    const sought = { ...authorizationOf(sweep), fromBlock: BigInt(terms.fromBlock) }
    const found = await findAuthorization(client, token, sought)
    const stands =
      found.state === 'used' &&
      found.paid &&
      found.tx === swept?.tx &&
      found.block === swept.block &&
      found.logIndex === swept.logIndex
    if (stands) return store.final(sweep, new Date(clock.now()))
    // A node that lags behind says nothing.
    if (found.state === 'unused' && found.head < (swept?.block ?? 0n)) return
    log(`sweep ${sweep.id} is not where it was, in block ${swept?.block}`, null)
    if (await store.reopen(chain, sweep)) await push(sweep)
  }

  /** Confirms what the chain has made final, of one wallet or of all. */
  return async function confirmAll(address?: string): Promise<void> {
    if (!(await store.anyUnfinal(chain))) return
    const final = finalBlock(await heads(client))
    const passed = await store.unfinal(chain, final, MOST_AT_ONCE, address)
    await Promise.all(passed.map((sweep) => confirm(sweep).catch(late(sweep))))
  }
}

/** What the wallet of a sweep signs. */
export const authorizationOf = ({ address, amount, terms }: Sweep): Authorization => ({
  from: address,
  to: terms.to,
  value: amount,
  validAfter: 0n,
  validBefore: BigInt(terms.validBefore),
  nonce: terms.nonce,
})
