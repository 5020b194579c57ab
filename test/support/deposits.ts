import { LIMITS } from '../../core/limits.ts'
import type { DepositSource } from '../../payments/deposits.ts'
import type { Sql } from '../../persistence/plane.ts'
import { startBase, type LocalChain } from '../../scripts/chain/local-chain.ts'
import { testDatabase } from './database.ts'
import { node } from './runtime.ts'
import { sourceOf, walletOwner, watcher } from './wallets.ts'

/** Blocks on top of a deposit until it is credited. */
export const CONFIRMED = LIMITS.depositConfirmations - 1

/** A chain of one's own, a database, a node with a watcher that has looked once. */
export async function begin(
  t: Parameters<typeof testDatabase>[0],
  altered: Partial<DepositSource> = {},
) {
  const [base, { sql }] = await Promise.all([startBase(), testDatabase(t)])
  t.teardown(() => base.stop())
  // Far enough from its beginning for a reorganisation to leave the token where it is.
  await base.mine(10)
  const one = node(t, sql)
  const source = sourceOf(base, altered)
  const watch = watcher(one, sql, source)
  await watch.catchUp()
  return { base, sql, one, source, watch, owner: (born = {}) => walletOwner(one, sql, born) }
}

/** No block of this chain is final as long as it is asked like this. */
export const neverFinal = (base: LocalChain): Partial<DepositSource> => ({
  heads: async () => ({ ...(await sourceOf(base).heads()), finalized: 0n }),
})

/** The same, read by a watcher for which no block is final. */
export async function openEnded(t: Parameters<typeof testDatabase>[0]) {
  const started = await begin(t)
  const { base, sql, one } = started
  await sql`truncate chain_checkpoints, chain_blocks`
  const watch = watcher(one, sql, sourceOf(base, neverFinal(base)))
  await watch.catchUp()
  return { ...started, watch }
}

export const states = (sql: Sql) =>
  sql<
    { state: string; times: number }[]
  >`select state, times from deposits order by block, log_index`
