import { ServiceError } from '../../core/errors.ts'
import { createEventLoopYieldQueue } from '../../core/concurrency/event-loop-yield-queue.ts'
import type { HiveVectorStore } from '../../persistence/hive/hive-vector-store.ts'

/** Computes embedding vectors of texts; passed in by the caller. */
export interface TextEmbedder {
  readonly model: string
  embed(texts: readonly string[], signal: AbortSignal): Promise<Float32Array[]>
}

export interface HiveVectorQuery {
  readonly text: string
  readonly namespace: string | null
  readonly minConfidence: number
  readonly limit: number
}

/** An entry and its similarity, 0 to 1. */
interface NearestEntry {
  readonly id: string
  readonly cosine: number
}

interface IndexedEntry {
  readonly namespace: string
  readonly confidence: number
  readonly vector: Float32Array
}

/** How many of the newest entries are compared: 30 MB of memory at 384 numbers each. */
const MAX_INDEXED_ENTRIES = 20_000
/** Comparisons per turn of the event loop. */
const SLICE = 1_000
const BATCH = 64
/** A text that no provider rejects. */
const PROBE_TEXT = 'gas'
/** Provider status codes that concern the texts, not us. */
const REFUSALS = new Set([400, 413, 422])
const QUESTION_MS = 400
const BATCH_MS = 20_000
/** Below this cosine two texts are unrelated. */
const MIN_COSINE = 0.3

/**
 * Finds the nearest of the newest entries by their vectors, in memory. Its failures do not affect
 * the search by words.
 */
export function createHiveVectorIndex(store: HiveVectorStore, embedder: TextEmbedder) {
  const known = new Map<string, IndexedEntry>()
  const turn = createEventLoopYieldQueue()
  let last: bigint | null = null

  /**
   * The vectors of entries; a text that the provider rejects gets an empty one, so that it is not
   * sent again.
   */
  async function vectorsOf(
    entries: readonly UnindexedEntry[],
    stopping: AbortSignal,
  ): Promise<{ id: string; vector: Float32Array }[]> {
    const embed = (texts: readonly string[]) =>
      embedder.embed(texts, AbortSignal.any([stopping, AbortSignal.timeout(BATCH_MS)]))
    try {
      const vectors = await embed(entries.map(({ content }) => content))
      return entries.flatMap(({ id }, at) => {
        const vector = vectors[at]
        return vector === undefined ? [] : [{ id, vector }]
      })
    } catch (error) {
      if (!isRefusal(error)) throw error
      const half = Math.ceil(entries.length / 2)
      if (half < entries.length) {
        const first = await vectorsOf(entries.slice(0, half), stopping)
        return [...first, ...(await vectorsOf(entries.slice(half), stopping))]
      }
      // A provider that rejects everything proves nothing about this text.
      await embed([PROBE_TEXT])
      return entries.map(({ id }) => ({ id, vector: new Float32Array() }))
    }
  }

  async function load(): Promise<void> {
    for (;;) {
      const rows = await store.after(embedder.model, last, MAX_INDEXED_ENTRIES)
      for (const { entryId, namespace, confidence, vector } of rows) {
        known.delete(entryId)
        known.set(entryId, { namespace, confidence, vector: Float32Array.from(vector) })
      }
      for (const [oldest] of known) {
        if (known.size <= MAX_INDEXED_ENTRIES) break
        known.delete(oldest)
      }
      const reached = rows.at(-1)?.id ?? last
      if (reached === last) return
      last = reached
    }
  }

  return {
    /** Computes missing vectors of a batch of entries; true if more may be missing. */
    async learn(stopping: AbortSignal): Promise<boolean> {
      const entries = await store.missing(embedder.model, BATCH)
      if (entries.length > 0) await store.keep(embedder.model, await vectorsOf(entries, stopping))
      await load()
      return entries.length === BATCH
    },

    /** The nearest public entries, nearest first; null if the provider does not answer. */
    async nearest({
      text,
      namespace,
      minConfidence,
      limit,
    }: HiveVectorQuery): Promise<NearestEntry[] | null> {
      if (known.size === 0) return null
      const asked = await embedder.embed([text], AbortSignal.timeout(QUESTION_MS)).catch(() => [])
      const [question] = asked
      if (question === undefined) return null
      const near: NearestEntry[] = []
      let compared = 0
      for (const [id, entry] of [...known]) {
        compared += 1
        if (compared % SLICE === 0) await turn()
        if (namespace !== null && entry.namespace !== namespace) continue
        if (entry.confidence < minConfidence) continue
        const cosine = product(question, entry.vector)
        if (cosine >= MIN_COSINE) near.push({ id, cosine })
      }
      near.sort((a, b) => b.cosine - a.cosine)
      return near.slice(0, limit)
    },
  }
}
interface UnindexedEntry {
  readonly id: string
  readonly content: string
}

function isRefusal(error: unknown): boolean {
  if (!(error instanceof ServiceError) || error.code !== 'upstream_error') return false
  return REFUSALS.has(Number(error.details['upstream_status']))
}

export type HiveVectorIndex = ReturnType<typeof createHiveVectorIndex>

function product(a: Float32Array, b: Float32Array): number {
  let sum = 0
  for (let at = 0; at < a.length; at += 1) sum += (a[at] ?? 0) * (b[at] ?? 0)
  return sum
}
