import { ServiceError } from '../core/errors.ts'
import type { RateLimitRule } from '../core/rate-limit-error.ts'
import { LIMITS } from '../core/limits.ts'

/** Why the service ends a stream. */
export type StreamEndReason = 'revoked' | 'restart'

/** An open stream on this node and its API key. */
export interface OpenStream {
  readonly kind: 'socket' | 'events'
  readonly key: StreamApiKey
  end(why: StreamEndReason): void
}

export interface StreamApiKey {
  readonly id: string
  readonly agentId: string
  /** Hash of the key, to look it up again. */
  readonly hash: string
  readonly expiresAt: Date | null
}

/** The owner of a stream: a key with its agent, or a visitor. */
export interface StreamOwner {
  /** Id of the key or the visitor. */
  readonly id: string
  readonly agentId: string | null
  /** The IPv6 /48 of a visitor. */
  readonly siteId?: string | null
}

/** Open streams of this node. Kept in memory, so that connecting costs no commit. */
export interface OpenStreamRegistry {
  /**
   * Counts a stream without registering it. Throws like `register`; returns the release function.
   */
  count(owner: StreamOwner): () => void
  /**
   * Registers a stream and returns the release function. Throws `rate_limited` above the limit of
   * the key or agent.
   */
  register(stream: OpenStream): () => void
  ofKey(keyId: string): readonly OpenStream[]
  all(): IterableIterator<OpenStream>
  counts(): { sockets: number; events: number }
}

export function createOpenStreamRegistry(): OpenStreamRegistry {
  const streams = new Set<OpenStream>()
  const byKey = new Map<string, Set<OpenStream>>()
  /** Streams by key, agent or visitor. */
  const open = new Map<string, number>()
  const counts = { sockets: 0, events: 0 }
  const tally = ({ kind }: OpenStream, by: 1 | -1) => {
    counts[kind === 'socket' ? 'sockets' : 'events'] += by
  }

  /** Counts streams of all kinds together. */
  function count({ id, agentId, siteId = null }: StreamOwner): () => void {
    assertBelowLimit(id, LIMITS.streamsPerKey, agentId === null ? 'caller' : 'API key')
    if (agentId !== null) assertBelowLimit(agentId, LIMITS.streamsPerAgent, 'agent')
    else if (siteId !== null)
      assertBelowLimit(siteId, LIMITS.streamsPerKey * LIMITS.ipv6SiteFactor, 'network')
    const owners = [id, agentId ?? siteId].filter((owner) => owner !== null)
    for (const owner of owners) open.set(owner, (open.get(owner) ?? 0) + 1)
    return () => {
      for (const owner of owners) {
        const left = (open.get(owner) ?? 1) - 1
        if (left > 0) open.set(owner, left)
        else open.delete(owner)
      }
    }
  }
  function assertBelowLimit(owner: string, limit: number, per: RateLimitRule['per']): void {
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
