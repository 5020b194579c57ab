import { ServiceError } from '../core/errors.ts'
import type { RateLimitRule } from '../core/rate-limit-error.ts'
import { LIMITS } from '../core/limits.ts'

/** Why a stream is ended by the service. */
export type StreamEndReason = 'revoked' | 'restart'

/** A stream that is open on this node, and the key it was opened with. */
export interface OpenStream {
  readonly kind: 'socket' | 'events'
  readonly key: StreamApiKey
  end(why: StreamEndReason): void
}

export interface StreamApiKey {
  readonly id: string
  readonly agentId: string
  /** Finds the key again without keeping it. */
  readonly hash: string
  readonly expiresAt: Date | null
}

/** Whose a stream is: a key's and with it its agent's, or a visitor's. */
export interface StreamOwner {
  /** The id of the key or of the visitor. */
  readonly id: string
  readonly agentId: string | null
}

/** Who is connected to this node. It lives in memory: a connect must not cost a commit. */
export interface OpenStreamRegistry {
  /** Counts a stream that ends by itself; refuses like `enter`. Returns what ends it. */
  count(owner: StreamOwner): () => void
  /** Refuses one stream too many of a key, or of its agent; returns what ends it. */
  register(stream: OpenStream): () => void
  ofKey(keyId: string): readonly OpenStream[]
  all(): IterableIterator<OpenStream>
  counts(): { sockets: number; events: number }
}

export function createOpenStreamRegistry(): OpenStreamRegistry {
  const streams = new Set<OpenStream>()
  const byKey = new Map<string, Set<OpenStream>>()
  /** By key, agent or visitor. */
  const open = new Map<string, number>()
  const counts = { sockets: 0, events: 0 }
  const tally = ({ kind }: OpenStream, by: 1 | -1) => {
    counts[kind === 'socket' ? 'sockets' : 'events'] += by
  }

  /** Streams of all kinds together. */
  function count({ id, agentId }: StreamOwner): () => void {
    demandPlace(id, LIMITS.streamsPerKey, agentId === null ? 'caller' : 'API key')
    if (agentId !== null) demandPlace(agentId, LIMITS.streamsPerAgent, 'agent')
    const owners = agentId === null ? [id] : [id, agentId]
    for (const owner of owners) open.set(owner, (open.get(owner) ?? 0) + 1)
    return () => {
      for (const owner of owners) {
        const left = (open.get(owner) ?? 1) - 1
        if (left > 0) open.set(owner, left)
        else open.delete(owner)
      }
    }
  }
  function demandPlace(owner: string, limit: number, per: RateLimitRule['per']): void {
    if ((open.get(owner) ?? 0) < limit) return
    throw new ServiceError('rate_limited', {
      detail: `Only ${limit} streams may be open for each ${per}: close one first.`,
      limit_source: `streams.${per === 'agent' ? 'agent' : 'key'}`,
      limit,
      per,
      retry_after: 1,
    })
  }

  return {
    count,
    register(stream) {
      const leave = count(stream.key)
      const own = byKey.get(stream.key.id) ?? new Set()
      byKey.set(stream.key.id, own.add(stream))
      streams.add(stream)
      tally(stream, 1)
      return () => {
        if (!streams.delete(stream)) return
        leave()
        own.delete(stream)
        if (own.size === 0 && byKey.get(stream.key.id) === own) byKey.delete(stream.key.id)
        tally(stream, -1)
      }
    },
    ofKey: (keyId) => [...(byKey.get(keyId) ?? [])],
    all: () => streams.values(),
    counts: () => ({ ...counts }),
  }
}
