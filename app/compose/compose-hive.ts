import { createEvmClient } from '../../chain/evm/evm-client.ts'
import { PAYMENT_NETWORKS } from '../../chain/payment-networks.ts'
import { findTransactionReceipt } from '../../chain/evm/settler-evm-transactions.ts'
import { MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { createPollingLoop } from '../../jobs/polling-loop.ts'
import { createHiveOverview } from '../../memory/hive/hive-overview.ts'
import { createHiveExcerptLookup } from '../../memory/hive/hive-excerpt-lookup.ts'
import { createHiveVectorIndex, type HiveVectorIndex } from '../../memory/hive/hive-vector-index.ts'
import { createHiveTextReservations } from '../../memory/hive/hive-text-reservations.ts'
import { createHiveSearchService } from '../../memory/hive/hive-search-and-trends.ts'
import type { AggregateChanges } from '../../persistence/commit-batch.ts'
import { createHiveOverviewStore } from '../../persistence/hive/hive-overview-store.ts'
import { createRoyaltyStore, type RoyaltyStore } from '../../persistence/hive/royalty-store.ts'
import { createHiveDuplicateTextStore } from '../../persistence/hive/hive-duplicate-text-store.ts'
import { createHiveVectorStore } from '../../persistence/hive/hive-vector-store.ts'
import {
  createHiveWatchStore,
  type HiveWatchStore,
} from '../../persistence/hive/hive-watch-store.ts'
import { createHiveStore } from '../../persistence/hive/hive-store.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { createStrategyStore } from '../../persistence/hive/strategy-store.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import { createEmbeddingsClient } from '../../providers/embeddings/embeddings-client.ts'
import type { EmbeddingsClient } from '../../providers/embeddings/embeddings-port.ts'
import type {
  HiveWatchesAndFeaturedSlot,
  HiveTextReservations,
  StrategyReader,
} from '../../providers/hive/hive-port.ts'
import type { HiveReader } from '../../providers/hive/hive-port.ts'
import { createStreamingPostClient } from '../../providers/upstream/streaming-post-client.ts'
import type { Config } from '../config.ts'

/** Composes the Hive, strategies and royalties. */

export interface ComposeHiveDeps {
  readonly config: Pick<Config, 'chain' | 'embeddings' | 'promoTransferable'>
  readonly userAgent: string
  readonly sql: Sql
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
}

/** Reads within this time are paid together. */
const GATHER_MS = SECOND
const PROOF_MS = 3 * SECOND
const MATCH_INTERVAL_MS = 5 * SECOND

/** Creates the Hive services, the strategy services and their background jobs. */
export function composeHive({ config, userAgent, sql, clock, log }: ComposeHiveDeps) {
  const embeddings = embeddingsOf(config.embeddings, userAgent)
  const vectors =
    embeddings === null
      ? null
      : createHiveVectorIndex(createHiveVectorStore(sql), embeddings.provider)
  const learning = createVectorIndexer(vectors, log)
  const hive = createHiveSearchService(createHiveStore(sql), clock, vectors)
  const watches = createHiveWatchStore(sql)
  const board = createHiveOverview(createHiveOverviewStore(sql), watches, clock)
  const texts = createHiveTextReservations(createHiveDuplicateTextStore(sql), clock)
  const strategies = createStrategyStore(sql)
  const royalties = createRoyaltyStore(sql)
  const paying = createRoyaltyPayer(royalties, config.promoTransferable, clock, log)
  const matching = createWatchMatcher(watches, log)
  const ports: {
    embeddings: EmbeddingsClient | null
    hive: HiveReader
    hiveBoard: HiveWatchesAndFeaturedSlot
    hiveTexts: HiveTextReservations
    strategies: StrategyReader
  } = {
    embeddings: embeddings?.provider ?? null,
    hive: {
      promoRoyalties: config.promoTransferable,
      search: (query) => withDatabaseAnswerTimeout(hive.search(query)),
      trending: (limit) => withDatabaseAnswerTimeout(hive.trending(limit)),
    },
    hiveBoard: {
      entry: (id) => withDatabaseAnswerTimeout(board.entry(id)),
      featureFreeAt: (at) => withDatabaseAnswerTimeout(board.featureFreeAt(at)),
      takeFeature: (callId, at) => withDatabaseAnswerTimeout(board.takeFeature(callId, at)),
      isWatchable: (keyword) => withDatabaseAnswerTimeout(board.isWatchable(keyword)),
      hasWatch: (agentId, watchId) => withDatabaseAnswerTimeout(board.hasWatch(agentId, watchId)),
      watchesOf: (agentId) => withDatabaseAnswerTimeout(board.watchesOf(agentId)),
      matchesOf: (query) => withDatabaseAnswerTimeout(board.matchesOf(query)),
    },
    hiveTexts: {
      claim: (text, id, claimant) => withDatabaseAnswerTimeout(texts.claim(text, id, claimant)),
      release: (text, id) => withDatabaseAnswerTimeout(texts.release(text, id)),
    },
    strategies: {
      find: (id) => withDatabaseAnswerTimeout(strategies.find(id)),
      verifyTransaction: createTransactionProofs(config.chain.rpc),
    },
  }
  return {
    ports,
    lookInHive: createHiveExcerptLookup(hive.search, clock),
    served: { hive: { ...board, search: ports.hive.search }, royalties, strategies },
    /** Called after each commit: pays due royalties soon, and matches new entries. */
    committed(changes: readonly AggregateChanges[]): void {
      for (const { rows } of changes)
        for (const { table } of rows) {
          if (table === 'hive_reads') paying.wake()
          else if (table.startsWith('hive_')) matching.wake()
        }
    },
    start(): void {
      hive.warm().catch((error: unknown) => log('trends not computed', error))
      paying.start()
      matching.start()
      learning.start()
    },
    async stop(): Promise<void> {
      await Promise.all([paying.stop(), matching.stop(), learning.stop()])
      await embeddings?.close()
    },
  }
}

/** Pays royalties after a commit that creates some, and every minute. */
function createRoyaltyPayer(
  royalties: RoyaltyStore,
  promoTransferable: boolean,
  clock: Clock,
  log: ComposeHiveDeps['log'],
) {
  return createPollingLoop({
    async work(isStopping) {
      // First, so that failing payments do not block the summing.
      while (!isStopping() && (await royalties.addUp()));
      const round = () => royalties.pay(new Date(clock.now()), promoTransferable)
      while (!isStopping() && (await round()) > 0);
    },
    everyMs: MINUTE,
    wakeDelayMs: GATHER_MS,
    log(error) {
      if (error !== null) log('royalties not paid', error)
    },
  })
}

/** Matches new entries with watches. */
function createWatchMatcher(watches: HiveWatchStore, log: ComposeHiveDeps['log']) {
  return createPollingLoop({
    async work(isStopping) {
      let matched = 0
      for (; !isStopping() && (await watches.matchMore()); matched += 1);
      return matched > 0 ? undefined : Infinity
    },
    everyMs: MATCH_INTERVAL_MS,
    idleMs: 2 * MATCH_INTERVAL_MS,
    wakeDelayMs: SECOND,
    log(error) {
      if (error !== null) log('watches not matched', error)
    },
  })
}

/** Computes vectors of new entries. A stop aborts the running request. */
function createVectorIndexer(vectors: HiveVectorIndex | null, log: ComposeHiveDeps['log']) {
  const stopping = new AbortController()
  const { signal } = stopping
  const { start, stop } = createPollingLoop({
    async work(isStopping) {
      while (!isStopping() && (await vectors?.learn(signal)) === true);
    },
    everyMs: 5 * SECOND,
    wakeDelayMs: SECOND,
    log(error) {
      if (error !== null && !signal.aborted) log('vectors not brought', error)
    },
  })
  return {
    start: () => (vectors === null ? undefined : start()),
    stop() {
      stopping.abort()
      return stop()
    },
  }
}

function embeddingsOf({ url, model, key }: Config['embeddings'], userAgent: string) {
  if (url === null) return null
  const postClient = createStreamingPostClient(userAgent)
  const provider = createEmbeddingsClient({ url, model, key: key?.reveal() ?? null, postClient })
  return { provider, close: () => postClient.close() }
}

/**
 * Checks that a transaction is on its chain and succeeded, if this station has an RPC node for it.
 */
function createTransactionProofs(rpc: Config['chain']['rpc']): StrategyReader['verifyTransaction'] {
  const names = ['base', 'bsc', 'tempo'] as const
  const clients = new Map(
    names.flatMap((name) => {
      const url = rpc[name]
      if (url === null) return []
      const { chainId } = PAYMENT_NETWORKS[name]
      const client = () => createEvmClient({ rpcUrl: url.reveal(), chainId, timeoutMs: PROOF_MS })
      return [[name as string, client] as const]
    }),
  )
  return async (chain, txHash) => {
    const client = clients.get(chain)
    if (client === undefined) return 'unchecked'
    const receipt = await findTransactionReceipt(client(), txHash as `0x${string}`).catch(
      () => undefined,
    )
    // An RPC node that does not respond proves nothing.
    if (receipt === undefined) return 'unchecked'
    return receipt?.status === 'success' ? 'good' : 'bad'
  }
}
