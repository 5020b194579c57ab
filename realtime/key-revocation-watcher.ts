import { SECOND, type Clock } from '../core/clock.ts'
import type { MessageBus } from '../persistence/message-bus.ts'
import { API_KEY_CHANGES_TOPIC, type ApiKeyStore } from '../persistence/agents/api-key-store.ts'
import type { OpenStream, OpenStreamRegistry } from './open-stream-registry.ts'

export interface KeyRevocationWatcherDeps {
  readonly clock: Clock
  readonly bus: Pick<MessageBus, 'subscribe'>
  readonly keys: Pick<ApiKeyStore, 'find'>
  readonly presence: OpenStreamRegistry
  readonly log: (message: string, error: unknown) => void
}

const EXPIRY_CHECK_MS = SECOND

/** Ends the streams of keys that were revoked, on whichever node, or have expired. */
export function createKeyRevocationWatcher({
  clock,
  bus,
  keys,
  presence,
  log,
}: KeyRevocationWatcherDeps) {
  async function check(stream: OpenStream): Promise<void> {
    const key = await keys.find(stream.key.hash)
    const dead = key === null || key.revokedAt !== null
    if (dead || isOver(key.expiresAt)) stream.end('revoked')
    else if (key.expiresAt !== null) expiring.set(stream, key.expiresAt)
  }
  /** Their key could not be looked up: that is done again until it is known. */
  const unsure = new WeakSet<OpenStream>()
  let failing = false
  const isOver = (at: Date | null) => at !== null && at.getTime() <= clock.now()
  const expiring = new WeakMap<OpenStream, Date>()

  function checkAll(streams: Iterable<OpenStream>): void {
    for (const stream of streams) {
      check(stream).then(
        () => (failing = false),
        (error: unknown) => {
          unsure.add(stream)
          // Once, and not each second: a database that is away is one thing to say.
          if (!failing) log('keys are not checked', error)
          failing = true
        },
      )
    }
  }

  const close = bus.subscribe(
    API_KEY_CHANGES_TOPIC,
    (keyId) => checkAll(presence.ofKey(keyId)),
    // What was told while the line was down was not heard.
    () => checkAll(presence.all()),
  )
  const look = setInterval(() => {
    for (const stream of presence.all()) {
      if (isOver(expiring.get(stream) ?? stream.key.expiresAt)) stream.end('revoked')
      else if (unsure.delete(stream)) checkAll([stream])
    }
  }, EXPIRY_CHECK_MS)
  look.unref()
  return {
    /** The key may have been revoked between its check at the door and here. */
    opened: (stream: OpenStream) => checkAll([stream]),
    stop() {
      clearInterval(look)
      close()
    },
  }
}
