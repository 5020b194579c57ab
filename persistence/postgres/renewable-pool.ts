import type postgres from 'postgres'
import { SECOND } from '../../core/clock.ts'

type Client = postgres.Sql<{ bigint: bigint }>

export interface PostgresClientEvents {
  /** A server has let one of its connections in. */
  readonly onparameter: () => void
  /** One of its connections has closed. */
  readonly onclose: () => void
}

export interface RenewableConnections {
  /** Gives up all connections at once: what waits for an answer on them is refused. */
  renew(): void
}

/** Statements end by themselves before this; to let them finish, and to close what is left. */
const DRAIN_SECONDS = 30

/**
 * A client that is replaced as soon as one of its connections closes. A connection of the driver
 * (3.4.9) that closes with something still to be written never writes again: each later use of it,
 * however long after, waits for the whole connect timeout and fails (porsager/postgres#1215).
 * Retries after the first of several connections that are lost together leave the next one so.
 * Nothing new is asked of a client that has lost a connection; what was asked of it is finished.
 */
export function createRenewablePool(
  open: (events: PostgresClientEvents) => Client,
  finishingMs = DRAIN_SECONDS * SECOND,
): Client & RenewableConnections {
  let ended = false
  const retired = new Map<Client, NodeJS.Timeout>()
  let current = opened()

  function opened(): Client {
    let greeted = false
    const made: Client = open({
      onparameter: () => (greeted = true),
      onclose() {
        // While no server is there it stays: its pause between two tries is of use.
        if (made !== current || !greeted || ended) return
        current = opened()
        retire(made)
      },
    })
    return made
  }

  /**
   * It is not ended at once: ended while something still waits for it, the driver opens connections
   * for that and never closes them.
   */
  function retire(one: Client): void {
    const late = setTimeout(() => {
      void one
        .end({ timeout: finishingMs / SECOND })
        .catch(() => {})
        .finally(() => retired.delete(one))
    }, finishingMs)
    late.unref()
    retired.set(one, late)
  }

  function renew(): void {
    if (ended) return
    const given = [current, ...retired.keys()]
    current = opened()
    for (const late of retired.values()) clearTimeout(late)
    retired.clear()
    for (const one of given) void one.end({ timeout: 0 }).catch(() => {})
  }

  /** What is assigned to the pool stays; everything else is the present client's. */
  const own = Object.assign(() => {}, {
    renew,
    async end(options?: Parameters<Client['end']>[0]): Promise<void> {
      ended = true
      for (const late of retired.values()) clearTimeout(late)
      await Promise.all([current, ...retired.keys()].map((one) => one.end(options)))
    },
  })
  return new Proxy(own, {
    apply: (_own, _self, args: Parameters<Client>) =>
      Reflect.apply(current, undefined, args) as unknown,
    get: (_own, name) => Reflect.get(Object.hasOwn(own, name) ? own : current, name) as unknown,
  }) as unknown as Client & RenewableConnections
}
