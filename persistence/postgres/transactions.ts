import type postgres from 'postgres'

/** One connection for transactions, and nothing else. */
interface Session {
  readonly sql: Client
  /** Its connection has closed: whatever it was doing is over. */
  lost: boolean
}

type Client = postgres.Sql<{ bigint: bigint }>
type Tx = postgres.TransactionSql<{ bigint: bigint }>
type Work = (tx: Tx) => unknown

/** Opens a client of exactly one connection that is kept, and tells when it closes. */
export type OpenSession = (onclose: () => void) => Client

/**
 * `begin`, `drop` and `end` for a pool. The driver's own `begin` (3.4.9) writes its ROLLBACK to a connection
 * that is gone, which ends the process, and after a reconnect what is left of a transaction runs
 * outside of it (porsager/postgres#1208, #1216). Here a transaction has a session of its own; when
 * its connection closes, the session is thrown away and nothing more is sent on it. At most `max`
 * run at once, further ones wait their turn.
 */
export function transactions(pool: Client, open: OpenSession, max: number) {
  const endPool = pool.end.bind(pool)
  const idle: Session[] = []
  const all = new Set<Session>()
  const waiting = new Set<Waiter>()
  let turns = max
  let ended = false

  function session(): Session {
    const kept = idle.pop()
    if (kept !== undefined) return kept
    const made: Session = { sql: open(() => drop(made)), lost: false }
    all.add(made)
    return made
  }

  function drop(one: Session): void {
    if (one.lost) return
    one.lost = true
    all.delete(one)
    const at = idle.indexOf(one)
    if (at >= 0) idle.splice(at, 1)
    void one.sql.end({ timeout: 0 }).catch(() => {})
  }

  async function turn(): Promise<void> {
    if (ended) throw gone('CONNECTION_ENDED')
    if (turns > 0) turns -= 1
    else await new Promise<void>((resolve, reject) => wait(waiting, resolve, reject))
  }

  function next(): void {
    const [waiter] = waiting
    if (waiter === undefined) turns += 1
    else waiter.go()
  }

  async function run(mode: string, work: Work): Promise<unknown> {
    await turn()
    const one = session()
    try {
      const result = await within(one, mode, work)
      if (!one.lost) idle.push(one)
      return result
    } catch (error) {
      // Only a server that answers is asked to roll back: what is queued for a connection that is
      // lost would go out on the next one.
      if (error instanceof NotBegun || isLost(error) || !(await rolledBack(one))) drop(one)
      throw error instanceof NotBegun ? error.cause : error
    } finally {
      next()
    }
  }

  async function rolledBack(one: Session): Promise<boolean> {
    if (one.lost) return false
    const undone = await one.sql.unsafe('rollback').then(
      () => true,
      () => false,
    )
    if (undone && !one.lost) idle.push(one)
    return undone && !one.lost
  }

  return {
    begin: (first: string | Work, second?: Work): Promise<unknown> =>
      typeof first === 'string' ? run(first, second as Work) : run('', first),

    /** Gives up all sessions at once: what runs on them is refused. */
    drop: () => [...all].forEach(drop),

    async end(options?: { timeout?: number }): Promise<void> {
      ended = true
      for (const waiter of waiting) waiter.refuse('CONNECTION_ENDED')
      await Promise.all([endPool(options), ...[...all].map(({ sql }) => sql.end(options))])
    },
  }
}

/** A transaction that waits for its turn, for a while. */
interface Waiter {
  go(): void
  refuse(code: string): void
}

const TURN_MS = 8_000

function wait(waiting: Set<Waiter>, resolve: () => void, reject: (error: Error) => void): void {
  const leave = (then: () => void) => {
    clearTimeout(patience)
    waiting.delete(waiter)
    then()
  }
  const waiter: Waiter = {
    go: () => leave(resolve),
    refuse: (code) => leave(() => reject(gone(code))),
  }
  const patience = setTimeout(() => waiter.refuse('CONNECTION_BUSY'), TURN_MS)
  waiting.add(waiter)
}

/** The server never said that the transaction has begun. */
class NotBegun extends Error {}

/** Codes of the driver, of a server that ends sessions, and of sockets. */
const LOST = /^(CONNECT|57P0|08|E[A-Z]+$)/
const isLost = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && LOST.test(String(error.code))

async function within(one: Session, mode: string, work: Work): Promise<unknown> {
  await one.sql.unsafe(`begin ${mode}`).catch((cause: unknown) => {
    throw new NotBegun('the transaction has not begun', { cause })
  })
  const life = { over: false }
  try {
    const made = await work(guarded(one, life))
    const result = Array.isArray(made) ? await Promise.all(made) : made
    if (one.lost) throw gone('CONNECTION_CLOSED')
    life.over = true
    const { command } = await one.sql.unsafe('commit')
    // A transaction in which a statement failed is rolled back by its COMMIT, without an error.
    if (command !== 'COMMIT')
      throw new Error('a transaction went on after one of its statements failed')
    return result
  } finally {
    life.over = true
  }
}

/**
 * The session for its transaction: what is asked after its connection has closed, or after the
 * transaction is over, is refused here and never runs outside of it.
 */
function guarded(one: Session, life: { readonly over: boolean }): Tx {
  const refuse = (): void => {
    if (one.lost) throw gone('CONNECTION_CLOSED')
    if (life.over) throw new Error('the transaction is over')
  }
  return new Proxy(one.sql, {
    apply(target, _self, args: Parameters<Client>) {
      refuse()
      return Reflect.apply(target, undefined, args) as unknown
    },
    get(target, name, receiver) {
      refuse()
      return Reflect.get(target, name, receiver) as unknown
    },
  }) as unknown as Tx
}

const gone = (code: string) =>
  Object.assign(new Error(`write ${code}: the connection of the transaction is closed`), { code })
