import type postgres from 'postgres'
import { SECOND } from '../../core/clock.ts'

/** A Postgres client that is replaced when a connection closes. */

type Client = postgres.Sql<{ bigint: bigint }>

export interface PostgresClientEvents {
  /** Called when a server has accepted one of its connections. */
  readonly onparameter: () => void
  /** Called before `onclose` when a server had no connection left. */
  readonly onrefused: () => void
  /** Called when one of its connections has closed. */
  readonly onclose: () => void
}

export interface RenewableConnections {
  /** Drops all connections at once: pending queries on them are rejected. */
  renew(): void
}

/** Longer than the statement timeout: time to finish statements before the rest is closed. */
const DRAIN_SECONDS = 30

/**
 * Replaces the client as soon as one of its connections closes. If a driver connection (3.4.9)
 * closes with unwritten data, it never writes again: each later use waits for the whole connect
 * timeout and fails (porsager/postgres#1215). If several connections are lost together, retries
 * leave the next one in this state. A client that has lost a connection gets no new queries and
 * finishes the pending ones.
 */
export function createSelfReplacingPostgresClient(
  open: (events: PostgresClientEvents) => Client,
  finishingMs = DRAIN_SECONDS * SECOND,
): Client & RenewableConnections {
  let ended = false
  const retired = new Map<Client, NodeJS.Timeout>()
  let current = opened()

  function opened(): Client {
    let greeted = false
    let refused = 0
    const made: Client = open({
      onparameter: () => (greeted = true),
      onrefused: () => (refused += 1),
      onclose() {
        if (refused > 0) {
          refused -= 1 // never open, so nothing is lost; the others are worth keeping
          return
        }
        // Without a server the client stays: its pause between attempts is useful.
        if (made !== current || !greeted || ended) return
        current = opened()
        retire(made)
      },
    })
    return made
  }

  /**
   * Ends later: if it is ended with pending queries, the driver opens connections for them and
   * never closes them.
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

  /** Properties assigned to the pool stay; everything else is the current client's. */
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
