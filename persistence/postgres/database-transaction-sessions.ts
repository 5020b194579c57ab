import { setTimeout as sleep } from 'node:timers/promises'
import type postgres from 'postgres'
import { createPauses, isServerFull } from './connection-wait.ts'

/** Database transactions on dedicated connections. */

/** One connection, used for transactions only. */
interface TransactionSession {
  readonly sql: Client
  /** Its connection has closed: the transaction has ended. */
  lost: boolean
}

type Client = postgres.Sql<{ bigint: bigint }>
type Tx = postgres.TransactionSql<{ bigint: bigint }>
type TransactionWork = (tx: Tx) => unknown

/** Opens a client with exactly one kept connection, and reports when it closes. */
export type TransactionSessionOpener = (onclose: () => void) => Client

/**
 * `begin`, `drop` and `end` for a pool. The driver's own `begin` (3.4.9) writes ROLLBACK to a lost
 * connection, which ends the process, and after a reconnect it runs the rest of a transaction
 * outside of it (porsager/postgres#1208, #1216). Here each transaction has its own session; when
 * its connection closes, the session is discarded and nothing more is sent. At most `max` run at
 * once; more wait.
 */
export function createTransactionSessions(
  pool: Client,
  open: TransactionSessionOpener,
  max: number,
) {
  const endPool = pool.end.bind(pool)
  const idle: TransactionSession[] = []
  const all = new Set<TransactionSession>()
  const waiting = new Set<TransactionWaiter>()
  let turns = max
  let ended = false

  function session(): TransactionSession {
    const kept = idle.pop()
    if (kept !== undefined) return kept
    const made: TransactionSession = { sql: open(() => drop(made)), lost: false }
    all.add(made)
    return made
  }

  function drop(one: TransactionSession): void {
    if (one.lost) return
    one.lost = true
    all.delete(one)
    const at = idle.indexOf(one)
    if (at >= 0) idle.splice(at, 1)
    void one.sql.end({ timeout: 0 }).catch(() => {})
  }

  async function turn(): Promise<void> {
    if (ended) throw connectionClosedError('CONNECTION_ENDED')
    if (turns > 0) turns -= 1
    else await new Promise<void>((resolve, reject) => waitForSlot(waiting, resolve, reject))
  }

  function next(): void {
    const [waiter] = waiting
    if (waiter === undefined) turns += 1
    else waiter.go()
  }

  async function run(mode: string, work: TransactionWork): Promise<unknown> {
    await turn()
    try {
      return await runWhenConnected(mode, work)
    } finally {
      next()
    }
  }

  /** A server without free connections has begun nothing: it is asked again. */
  async function runWhenConnected(mode: string, work: TransactionWork): Promise<unknown> {
    for (const pauses = createPauses(); ;) {
      try {
        return await runOnce(mode, work)
      } catch (error) {
        if (!(error instanceof TransactionNotBegunError)) throw error
        const pause = isServerFull(error.cause) && !ended ? pauses() : null
        if (pause === null) throw error.cause
        await sleep(pause)
      }
    }
  }

  async function runOnce(mode: string, work: TransactionWork): Promise<unknown> {
    const one = session()
    try {
      const result = await runInTransaction(one, mode, work)
      if (!one.lost) idle.push(one)
      return result
    } catch (error) {
      // Rolls back only on a responding server: a command queued for a lost connection would run on
      // the next one.
      if (
        error instanceof TransactionNotBegunError ||
        isConnectionLost(error) ||
        !(await rolledBack(one))
      )
        drop(one)
      throw error
    }
  }

  async function rolledBack(one: TransactionSession): Promise<boolean> {
    if (one.lost) return false
    const undone = await one.sql.unsafe('rollback').then(
      () => true,
      () => false,
    )
    if (undone && !one.lost) idle.push(one)
    return undone && !one.lost
  }

  return {
    begin: (first: string | TransactionWork, second?: TransactionWork): Promise<unknown> =>
      typeof first === 'string' ? run(first, second as TransactionWork) : run('', first),

    /** Drops all sessions at once: their transactions are rejected. */
    drop: () => [...all].forEach(drop),

    async end(options?: { timeout?: number }): Promise<void> {
      ended = true
      for (const waiter of waiting) waiter.refuse('CONNECTION_ENDED')
      await Promise.all([endPool(options), ...[...all].map(({ sql }) => sql.end(options))])
    },
  }
}

/** A transaction that waits for a session, for a limited time. */
interface TransactionWaiter {
  go(): void
  refuse(code: string): void
}

const SLOT_TIMEOUT_MS = 8_000

function waitForSlot(
  waiting: Set<TransactionWaiter>,
  resolve: () => void,
  reject: (error: Error) => void,
): void {
  const leave = (then: () => void) => {
    clearTimeout(patience)
    waiting.delete(waiter)
    then()
  }
  const waiter: TransactionWaiter = {
    go: () => leave(resolve),
    refuse: (code) => leave(() => reject(connectionClosedError(code))),
  }
  const patience = setTimeout(() => waiter.refuse('CONNECTION_BUSY'), SLOT_TIMEOUT_MS)
  waiting.add(waiter)
}

/** The server never confirmed that the transaction has begun. */
class TransactionNotBegunError extends Error {}

/** Codes of the driver, of a server that ends sessions, and of sockets. */
const CONNECTION_LOST_CODE = /^(CONNECT|57P0|08|E[A-Z]+$)/
const isConnectionLost = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && CONNECTION_LOST_CODE.test(String(error.code))

async function runInTransaction(
  one: TransactionSession,
  mode: string,
  work: TransactionWork,
): Promise<unknown> {
  await one.sql.unsafe(`begin ${mode}`).catch((cause: unknown) => {
    throw new TransactionNotBegunError('the transaction has not begun', { cause })
  })
  const life = { over: false }
  try {
    const made = await work(guardSession(one, life))
    const result = Array.isArray(made) ? await Promise.all(made) : made
    if (one.lost) throw connectionClosedError('CONNECTION_CLOSED')
    life.over = true
    const { command } = await one.sql.unsafe('commit')
    // After a failed statement, COMMIT rolls the transaction back without an error.
    if (command !== 'COMMIT')
      throw new Error('a transaction went on after one of its statements failed')
    return result
  } finally {
    life.over = true
  }
}

/**
 * Wraps the session for its transaction: rejects queries after its connection has closed or the
 * transaction has ended, so that none runs outside of it.
 */
function guardSession(one: TransactionSession, life: { readonly over: boolean }): Tx {
  const refuse = (): void => {
    if (one.lost) throw connectionClosedError('CONNECTION_CLOSED')
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

const connectionClosedError = (code: string) =>
  Object.assign(new Error(`write ${code}: the connection of the transaction is closed`), { code })
