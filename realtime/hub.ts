import { textFrame } from './text-frame.ts'

/**
 * What a listener of a channel is told: one event, or several that have come at once. Each form of it
 * is made once, whoever asks.
 */
export interface Told {
  /** The id of the last of them; 0 where they have none. */
  readonly through: bigint
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
  /**
   * Tells one listener in each step. Whoever begins to listen before the last step is told as well:
   * as long as this is not over, nobody may count what is told as passed on.
   */
  telling(channel: string, told: Told): Iterable<void>
}

/** One listener that fails must not keep an event from the others. */
export function hub(log: (message: string, error: unknown) => void): Hub {
  const channels = new Map<string, Set<Listener>>()
  /** Listeners that are being told: who comes must find them, though all others have left. */
  const busy = new Set<Set<Listener>>()

  function forgetIfEmpty(channel: string, listeners: Set<Listener>): void {
    if (listeners.size > 0 || busy.has(listeners)) return
    if (channels.get(channel) === listeners) channels.delete(channel)
  }

  return {
    listen(channel, listener) {
      const listeners = channels.get(channel) ?? new Set<Listener>()
      channels.set(channel, listeners.add(listener))
      return () => {
        listeners.delete(listener)
        forgetIfEmpty(channel, listeners)
      }
    },
    has: (channel) => channels.has(channel),
    *telling(channel, told) {
      const listeners = channels.get(channel)
      if (listeners === undefined) return
      busy.add(listeners)
      try {
        for (const listener of listeners) {
          try {
            listener(told)
          } catch (error) {
            log('an event was lost on a listener', error)
          }
          yield
        }
      } finally {
        busy.delete(listeners)
        forgetIfEmpty(channel, listeners)
      }
    },
  }
}

/**
 * Makes each form when it is first asked for, and once. Several go to a connection by one system call,
 * which is most of what a frame costs.
 */
export function told<T extends object>(
  all: readonly T[],
  frame: (one: T) => string,
  event: (one: T) => string = frame,
): Told {
  let [framed, sent]: [Buffer | null, Buffer | null] = [null, null]
  return {
    through: idOf(all.at(-1)),
    frame: () => (framed ??= Buffer.concat(all.map((one) => textFrame(frame(one))))),
    event: () => (sent ??= Buffer.from(all.map(event).join(''))),
  }
}

const idOf = (one: object | undefined): bigint =>
  one !== undefined && 'id' in one && typeof one.id === 'bigint' ? one.id : 0n
