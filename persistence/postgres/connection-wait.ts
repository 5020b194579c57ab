import type postgres from 'postgres'
import { SECOND, createDatabaseAdjustedClock } from '../../core/clock.ts'

/** Waits for a free connection of a server that has no more. */

type Client = postgres.Sql<{ bigint: bigint }>

/** A query of the driver (3.4.9): `handler` queues it on its client, as its first use did. */
interface QueuedQuery {
  readonly handler: (query: QueuedQuery) => void
  reject(error: Error): void
}

/** SQLSTATE too_many_connections: of the server, of its database or of its role. */
const TOO_MANY_CONNECTIONS = '53300'
/** Callers give up earlier, by their own deadlines. */
const MAX_WAIT_MS = 8 * SECOND
const FIRST_PAUSE_MS = 20
const MAX_PAUSE_MS = 500

const { mono } = createDatabaseAdjustedClock()

/** Whether the server has no connection left for us. */
export const isServerFull = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === TOO_MANY_CONNECTIONS

/**
 * Decision 441. A client whose queries wait for a connection while the server says that it has none left; the
 * server has seen nothing of such a query, so repeating it is safe. Other errors pass. Reports each
 * refusal.
 */
export function waitForConnections(client: Client, onrefused: () => void): Client {
  const waiting = <Made>(made: Made): Made => {
    if (isQuery(made)) repeatWhileFull(made, onrefused)
    return made
  }
  const unsafe = ((...args: Parameters<Client['unsafe']>) =>
    waiting(client.unsafe(...args))) as Client['unsafe']
  return new Proxy(client, {
    apply: (target, _self, args: Parameters<Client>) =>
      waiting(Reflect.apply(target, undefined, args) as unknown),
    get: (target, name) => (name === 'unsafe' ? unsafe : Reflect.get(target, name)),
  })
}

const isQuery = (made: unknown): made is QueuedQuery =>
  typeof (made as Partial<QueuedQuery> | null)?.handler === 'function'

function repeatWhileFull(query: QueuedQuery, onrefused: () => void): void {
  const reject = query.reject.bind(query)
  const pauses = createPauses()
  query.reject = (error) => {
    if (!isServerFull(error)) return reject(error)
    onrefused()
    const pause = pauses()
    if (pause === null) reject(error)
    else setTimeout(() => query.handler(query), pause)
  }
}

/** Milliseconds to the next attempt; null after `MAX_WAIT_MS` since the first call. */
export function createPauses(): () => number | null {
  let giveUpAt: number | undefined
  let pause = FIRST_PAUSE_MS / 2
  return () => {
    pause = Math.min(pause * 2, MAX_PAUSE_MS)
    giveUpAt ??= mono() + MAX_WAIT_MS
    return mono() + pause > giveUpAt ? null : pause
  }
}
