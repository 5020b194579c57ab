import { evmClient } from '../chain/evm.ts'
import { NETWORKS } from '../chain/networks.ts'
import { receiptOf } from '../chain/transactions.ts'
import { MINUTE, SECOND, type Clock } from '../core/clock.ts'
import { rounds } from '../jobs/rounds.ts'
import { createBoard } from '../memory/hive-board.ts'
import { createLook } from '../memory/hive-look.ts'
import { createVectors, type Vectors } from '../memory/hive-vectors.ts'
import { hiveTexts } from '../memory/hive-texts.ts'
import { createHive } from '../memory/hive.ts'
import type { AggregateChanges } from '../persistence/commit.ts'
import { boardStore } from '../persistence/hive-board.ts'
import { royaltyStore, type RoyaltyStore } from '../persistence/hive-royalties.ts'
import { textStore } from '../persistence/hive-texts.ts'
import { vectorStore } from '../persistence/hive-vectors.ts'
import { watchStore, type WatchStore } from '../persistence/hive-watches.ts'
import { hiveStore } from '../persistence/hive.ts'
import type { Sql } from '../persistence/plane.ts'
import { strategyStore } from '../persistence/strategies.ts'
import { answered } from '../persistence/within.ts'
import { createEmbeddings } from '../tools/embeddings/embeddings.ts'
import type { Embeddings } from '../tools/embeddings/port.ts'
import type { HiveBoard, HiveTexts, Strategies } from '../tools/hive/port.ts'
import type { Hive } from '../tools/ports.ts'
import { createPosting } from '../tools/upstream/posting.ts'
import type { Config } from './config.ts'

export interface HiveParts {
  readonly config: Pick<Config, 'chain' | 'embeddings' | 'promoTransferable'>
  readonly userAgent: string
  readonly sql: Sql
  readonly clock: Clock
  readonly log: (message: string, error: unknown) => void
}

/** Reads that fall together are paid together. */
const GATHER_MS = SECOND
const PROOF_MS = 3 * SECOND

/** The Hive with what stands around it, strategies, and the rounds that pay royalties. */
export function composeHive({ config, userAgent, sql, clock, log }: HiveParts) {
  const embeddings = embeddingsOf(config.embeddings, userAgent)
  const vectors = embeddings === null ? null : createVectors(vectorStore(sql), embeddings.provider)
  const learning = learner(vectors, log)
  const hive = createHive(hiveStore(sql), clock, vectors)
  const watches = watchStore(sql)
  const board = createBoard(boardStore(sql), watches, clock)
  const texts = hiveTexts(textStore(sql), clock)
  const strategies = strategyStore(sql)
  const royalties = royaltyStore(sql)
  const paying = payer(royalties, config.promoTransferable, clock, log)
  const matching = matcher(watches, log)
  const ports: {
    embeddings: Embeddings | null
    hive: Hive
    hiveBoard: HiveBoard
    hiveTexts: HiveTexts
    strategies: Strategies
  } = {
    embeddings: embeddings?.provider ?? null,
    hive: {
      promoRoyalties: config.promoTransferable,
      search: (query) => answered(hive.search(query)),
      trending: (limit) => answered(hive.trending(limit)),
    },
    hiveBoard: {
      entry: (id) => answered(board.entry(id)),
      featureFreeAt: (at) => answered(board.featureFreeAt(at)),
      takeFeature: (callId, at) => answered(board.takeFeature(callId, at)),
      isWatchable: (keyword) => answered(board.isWatchable(keyword)),
      hasWatch: (agentId, watchId) => answered(board.hasWatch(agentId, watchId)),
      watchesOf: (agentId) => answered(board.watchesOf(agentId)),
      matchesOf: (asked) => answered(board.matchesOf(asked)),
    },
    hiveTexts: {
      claim: (text, id, claimant) => answered(texts.claim(text, id, claimant)),
      release: (text, id) => answered(texts.release(text, id)),
    },
    strategies: {
      find: (id) => answered(strategies.find(id)),
      proof: proofs(config.chain.rpc),
    },
  }
  return {
    ports,
    lookInHive: createLook(hive.search, clock),
    served: { hive: { ...board, search: ports.hive.search }, royalties, strategies },
    /** Called after each commit: royalties that it owes are paid soon. */
    committed(changes: readonly AggregateChanges[]): void {
      if (changes.some(({ rows }) => rows.some(({ table }) => table === 'hive_reads')))
        paying.wake()
    },
    start(): void {
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

/** Pays royalties: after a commit that owes some, and each minute. */
function payer(
  royalties: RoyaltyStore,
  promoTransferable: boolean,
  clock: Clock,
  log: HiveParts['log'],
) {
  return rounds({
    async work(isStopping) {
      // First: what cannot be paid must not keep what is owed from being added up.
      while (!isStopping() && (await royalties.addUp()));
      const round = () => royalties.pay(new Date(clock.now()), promoTransferable)
      while (!isStopping() && (await round()) > 0);
    },
    everyMs: MINUTE,
    gatherMs: GATHER_MS,
    log(error) {
      if (error !== null) log('royalties not paid', error)
    },
  })
}

/** Finds what watches wait for among the entries that are new. */
function matcher(watches: WatchStore, log: HiveParts['log']) {
  return rounds({
    async work(isStopping) {
      while (!isStopping() && (await watches.matchMore()));
    },
    everyMs: 5 * SECOND,
    log(error) {
      if (error !== null) log('watches not matched', error)
    },
  })
}

/** Brings vectors; a stop ends the question that the provider is asked. */
function learner(vectors: Vectors | null, log: HiveParts['log']) {
  const stopping = new AbortController()
  const { signal } = stopping
  const { start, stop } = rounds({
    async work(isStopping) {
      while (!isStopping() && (await vectors?.learn(signal)) === true);
    },
    everyMs: 5 * SECOND,
    gatherMs: SECOND,
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
  const posting = createPosting(userAgent)
  const provider = createEmbeddings({ url, model, key: key?.reveal() ?? null, posting })
  return { provider, close: () => posting.close() }
}

/** Whether a transaction is on its chain and succeeded, where this station has a node of it. */
function proofs(rpc: Config['chain']['rpc']): Strategies['proof'] {
  const names = ['base', 'bsc', 'tempo'] as const
  const clients = new Map(
    names.flatMap((name) => {
      const url = rpc[name]
      if (url === null) return []
      const { chainId } = NETWORKS[name]
      const client = () => evmClient({ rpcUrl: url.reveal(), chainId, timeoutMs: PROOF_MS })
      return [[name as string, client] as const]
    }),
  )
  return async (chain, txHash) => {
    const client = clients.get(chain)
    if (client === undefined) return 'unchecked'
    const receipt = await receiptOf(client(), txHash as `0x${string}`).catch(() => undefined)
    // A node that does not answer says nothing against the transaction.
    if (receipt === undefined) return 'unchecked'
    return receipt?.status === 'success' ? 'good' : 'bad'
  }
}
