import { createIntervalWhileNeeded } from '../core/concurrency/interval-while-needed.ts'
import { SECOND, type Clock } from '../core/clock.ts'
import type { MessageBus } from '../persistence/message-bus.ts'
import { API_KEY_CHANGES_TOPIC, type ApiKeyStore } from '../persistence/agents/api-key-store.ts'
import type { OpenStream, OpenStreamRegistry } from './open-stream-registry.ts'

/** Ends streams whose API key was revoked or has expired. */

export interface RevokedKeyStreamEnderDeps {
  readonly clock: Clock
  readonly bus: Pick<MessageBus, 'subscribe' | 'healthy'>
  readonly keys: Pick<ApiKeyStore, 'find'>
  readonly presence: OpenStreamRegistry
  readonly log: (message: string, error: unknown) => void
}

const EXPIRY_CHECK_MS = SECOND

/** Watches the keys of open streams: revocations on any node, and expiry. */
export function createRevokedKeyStreamEnder({
  clock,
  bus,
  keys,
  presence,
  log,
}: RevokedKeyStreamEnderDeps) {
  async function check(stream: OpenStream): Promise<void> {
    const key = await keys.find(stream.key.hash)
    const dead = key === null || key.revokedAt !== null
    if (dead || isOver(key.expiresAt)) stream.end('revoked')
    else if (key.expiresAt !== null) expiring.set(stream, key.expiresAt)
  }
  /** Streams whose key look-up failed. It is retried until it succeeds. */
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
          // Log an outage once and not every second.
          if (!failing) log('keys are not checked', error)
          failing = true
        },
      )
    }
  }

  const close = bus.subscribe(
    API_KEY_CHANGES_TOPIC,
    (keyId) => checkAll(presence.ofKey(keyId)),
    // Messages during a connection loss were missed.
    () => checkAll(presence.all()),
  )
  const lookAround = () => {
    // Streams rely on the bus: it has to be asked whether it answers.
    bus.healthy()
    for (const stream of presence.all()) {
      if (isOver(expiring.get(stream) ?? stream.key.expiresAt)) stream.end('revoked')
      else if (unsure.delete(stream)) checkAll([stream])
    }
  }
  const looks = createIntervalWhileNeeded(lookAround, EXPIRY_CHECK_MS, () => {
    const { sockets, events } = presence.counts()
    return sockets + events > 0
  })
  return {
    /** The key may have been revoked between authentication and registration. */
    opened(stream: OpenStream): void {
      looks.start()
      checkAll([stream])
    },
    stop() {
      looks.stop()
      close()
    },
  }
}
