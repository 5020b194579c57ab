import { LIMITS } from '../../../core/limits.ts'
import type { DepositChainSource } from '../../../payments/deposits/deposit-scanner.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { startLocalBase, type LocalChain } from '../chain/local-chain.ts'
import { assertJournalMatchesActorsAtTestEnd } from '../ledger/compare-journal-with-actors-at-test-end.ts'
import { createTestDatabase } from '../postgres/test-database.ts'
import { createTestActorNode } from '../actors/test-actor-node.ts'
import {
  createTestDepositChainSource,
  createAgentWithDepositWallet,
  createTestDepositWatcher,
} from './deposit-wallet-and-scanner-test-fixtures.ts'

/** Blocks after a deposit until it is credited. */
export const BLOCKS_TO_CONFIRM = LIMITS.depositConfirmations - 1

/** Starts a chain, a database and a node with a deposit watcher that has polled once. */
export async function startDepositScenario(
  t: Parameters<typeof createTestDatabase>[0],
  altered: Partial<DepositChainSource> = {},
) {
  const [base, { sql }] = await Promise.all([startLocalBase(), createTestDatabase(t)])
  t.teardown(() => base.stop())
  assertJournalMatchesActorsAtTestEnd(t, sql)
  // Far enough from genesis that a reorg does not remove the token.
  await base.mine(10)
  const one = createTestActorNode(t, sql)
  const source = createTestDepositChainSource(base, altered)
  const watch = createTestDepositWatcher(one, sql, source)
  await watch.catchUp()
  return {
    base,
    sql,
    one,
    source,
    watch,
    owner: (born = {}) => createAgentWithDepositWallet(one, sql, born),
  }
}

/** A chain source that reports no block as final. */
export const chainSourceWithoutFinality = (base: LocalChain): Partial<DepositChainSource> => ({
  heads: async () => ({ ...(await createTestDepositChainSource(base).heads()), finalized: 0n }),
})

/** The same scenario with a watcher that sees no block as final. */
export async function startUnfinalizedDepositScenario(t: Parameters<typeof createTestDatabase>[0]) {
  const started = await startDepositScenario(t)
  const { base, sql, one } = started
  await sql`truncate chain_checkpoints, chain_blocks`
  const watch = createTestDepositWatcher(
    one,
    sql,
    createTestDepositChainSource(base, chainSourceWithoutFinality(base)),
  )
  await watch.catchUp()
  return { ...started, watch }
}

export const readDepositStates = (sql: Sql) =>
  sql<
    { state: string; times: number }[]
  >`select state, times from deposits order by block, log_index`
