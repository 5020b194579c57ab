import type postgres from 'postgres'

type Client = postgres.Sql<{ bigint: bigint }>

export interface ClientEvents {
  /** A server has let one of its connections in. */
  readonly onparameter: () => void
  /** One of its connections has closed. */
  readonly onclose: () => void
}

/** Statements end by themselves before this. */
const FINISHING_SECONDS = 30

/**
 * A client that is replaced as soon as one of its connections closes. A connection of the driver
 * (3.4.9) that closes with something still to be written never writes again: each later use of it,
 * however long after, waits for the whole connect timeout and fails (porsager/postgres#1215).
 * Retries after the first of several connections that are lost together leave the next one so.
 * Nothing new is asked of a client that has lost a connection; what runs on its others is finished.
 */
export function renewing(open: (events: ClientEvents) => Client): Client {
  let ended = false
  let current = opened()

  function opened(): Client {
    let greeted = false
    const made: Client = open({
      onparameter: () => (greeted = true),
      onclose() {
        // While no server is there it stays: its pause between two tries is of use.
        if (made !== current || !greeted || ended) return
        current = opened()
        void made.end({ timeout: FINISHING_SECONDS }).catch(() => {})
      },
    })
    return made
  }

  /** What is assigned to the pool stays; everything else is the present client's. */
  const own = Object.assign(() => {}, {
    end(options?: Parameters<Client['end']>[0]) {
      ended = true
      return current.end(options)
    },
  })
  return new Proxy(own, {
    apply: (_own, _self, args: Parameters<Client>) =>
      Reflect.apply(current, undefined, args) as unknown,
    get: (_own, name) => Reflect.get(Object.hasOwn(own, name) ? own : current, name) as unknown,
  }) as unknown as Client
}
