import { textFrame } from './text-frame.ts'

/**
 * What a listener of a channel is told: one event, or several that have come at once. Each form of it
 * is made once, whoever asks.
 */
export interface Told {
  /** What a socket is sent: whole messages, as they go over the wire. */
  frame(): Buffer
  /** Events of the signal stream, as they go over the wire. */
  event(): Buffer
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

/**
 * Makes each form when it is first asked for, and once. Several go to a connection by one system call,
 * which is most of what a frame costs.
 */
export function told<T>(
  all: readonly T[],
  frame: (one: T) => string,
  event: (one: T) => string = frame,
): Told {
  let [framed, sent]: [Buffer | null, Buffer | null] = [null, null]
  return {
    frame: () => (framed ??= Buffer.concat(all.map((one) => textFrame(frame(one))))),
    event: () => (sent ??= Buffer.from(all.map(event).join(''))),
  }
}
