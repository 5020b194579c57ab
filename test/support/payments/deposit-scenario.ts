import { LIMITS } from '../../../core/limits.ts'
import type { DepositChainSource } from '../../../payments/deposits/deposit-scanner.ts'
import type { Sql } from '../../../persistence/data-plane.ts'
import { startLocalBase, type LocalChain } from '../chain/local-chain.ts'
import { createTestDatabase } from '../postgres/test-database.ts'
import { createActorNode } from '../actors/actor-node.ts'
import { depositSourceOf, createWalletOwner, createDepositWatcher } from './wallet-owners.ts'

/** Blocks on top of a deposit until it is credited. */
export const BLOCKS_TO_CONFIRM = LIMITS.depositConfirmations - 1

/** A chain of one's own, a database, a node with a watcher that has looked once. */
export async function startDepositScenario(
  t: Parameters<typeof createTestDatabase>[0],
  altered: Partial<DepositChainSource> = {},
) {
  const [base, { sql }] = await Promise.all([startLocalBase(), createTestDatabase(t)])
  t.teardown(() => base.stop())
  // Far enough from its beginning for a reorganisation to leave the token where it is.
  await base.mine(10)
  const one = createActorNode(t, sql)
  const source = depositSourceOf(base, altered)
  const watch = createDepositWatcher(one, sql, source)
  await watch.catchUp()
  return { base, sql, one, source, watch, owner: (born = {}) => createWalletOwner(one, sql, born) }
}

/** No block of this chain is final as long as it is asked like this. */
export const withoutFinality = (base: LocalChain): Partial<DepositChainSource> => ({
  heads: async () => ({ ...(await depositSourceOf(base).heads()), finalized: 0n }),
})

/** The same, read by a watcher for which no block is final. */
export async function startUnfinalizedScenario(t: Parameters<typeof createTestDatabase>[0]) {
  const started = await startDepositScenario(t)
  const { base, sql, one } = started
  await sql`truncate chain_checkpoints, chain_blocks`
  const watch = createDepositWatcher(one, sql, depositSourceOf(base, withoutFinality(base)))
  await watch.catchUp()
  return { ...started, watch }
}

export const readDepositStates = (sql: Sql) =>
  sql<
    { state: string; times: number }[]
  >`select state, times from deposits order by block, log_index`
