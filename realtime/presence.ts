import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'

/** Why a stream is ended by the service. */
export type Ending = 'revoked' | 'restart'

/** A stream that is open on this node, and the key it was opened with. */
export interface OpenStream {
  readonly kind: 'socket' | 'events'
  readonly key: StreamKey
  end(why: Ending): void
}

export interface StreamKey {
  readonly id: string
  readonly agentId: string
  /** Finds the key again without keeping it. */
  readonly hash: string
  readonly expiresAt: Date | null
}

/** Who is connected to this node. It lives in memory: a connect must not cost a commit. */
export interface Presence {
  /** Counts a stream that ends by itself, of a key or a visitor; returns what ends it. */
  count(owner: string): () => void
  /** Refuses one stream too many of a key; returns what ends it. */
  enter(stream: OpenStream): () => void
  ofKey(keyId: string): readonly OpenStream[]
  all(): IterableIterator<OpenStream>
  counts(): { sockets: number; events: number }
}

export function presence(): Presence {
  const streams = new Set<OpenStream>()
  const byKey = new Map<string, Set<OpenStream>>()
  const open = new Map<string, number>()
  const counts = { sockets: 0, events: 0 }
  const tally = ({ kind }: OpenStream, by: 1 | -1) => {
    counts[kind === 'socket' ? 'sockets' : 'events'] += by
  }

  /** Streams of all kinds together. */
  function count(owner: string): () => void {
    const before = open.get(owner) ?? 0
    if (before >= LIMITS.streamsPerKey)
      throw new ServiceError('rate_limited', { limit: LIMITS.streamsPerKey, retry_after: 1 })
    open.set(owner, before + 1)
    return () => {
      const left = (open.get(owner) ?? 1) - 1
      if (left > 0) open.set(owner, left)
      else open.delete(owner)
    }
  }

  return {
    count,
    enter(stream) {
      const leave = count(stream.key.id)
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
