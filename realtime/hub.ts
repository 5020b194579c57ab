/** What a listener of a channel is told; each form of it is made once, whoever asks. */
export interface Told {
  readonly id: bigint
  /** The frame of the socket. */
  frame(): Buffer
  /** The event of the signal stream. */
  event(): string
}

export type Listener = (told: Told) => void

/** Who listens to what on this node. */
export interface Hub {
  listen(channel: string, listener: Listener): () => void
  has(channel: string): boolean
  /** Answers how many were told. */
  tell(channel: string, told: Told): number
}

/** One listener that fails must not keep an event from the others. */
export function hub(log: (message: string, error: unknown) => void): Hub {
  const channels = new Map<string, Set<Listener>>()
  return {
    listen(channel, listener) {
      const listeners = channels.get(channel) ?? new Set<Listener>()
      channels.set(channel, listeners.add(listener))
      return () => {
        listeners.delete(listener)
        if (listeners.size === 0 && channels.get(channel) === listeners) channels.delete(channel)
      }
    },
    has: (channel) => channels.has(channel),
    tell(channel, told) {
      const listeners = channels.get(channel)
      if (listeners === undefined) return 0
      for (const listener of listeners) {
        try {
          listener(told)
        } catch (error) {
          log('an event was lost on a listener', error)
        }
      }
      return listeners.size
    },
  }
}

/** Makes each form of an event when it is first asked for, and once. */
export function told(id: bigint, frame: () => string, event: () => string = frame): Told {
  let [framed, sent]: [Buffer | null, string | null] = [null, null]
  return {
    id,
    frame: () => (framed ??= Buffer.from(frame())),
    event: () => (sent ??= event()),
  }
}
