import { Worker } from 'node:worker_threads'
import t from 'tap'
import { startTaskCommand } from '../../actors/commands/task-session-actor-commands.ts'
import { LIMITS } from '../../core/limits.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { awaitErrorCodeOrOk, createTestClock } from '../support/actors/test-actor-node.ts'
import {
  createSingleTestActorNode,
  sampleTaskInput,
} from '../support/actors/test-actor-node-pairs.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'

/** An answer of the database that came while the event loop was held up is no missing answer. */

/**
 * Holds a lock in a thread of its own. On a message it releases the lock, waits until the connection that
 * was waiting for it has its answer, and wakes the thread that sent the message.
 */
const LOCK_HOLDER = `
const { parentPort, workerData } = require('node:worker_threads')
const postgres = require('postgres')
const { options, lock, flag } = workerData
const connect = () => postgres({ ...options, max: 1 })
const [holder, observer] = [connect(), connect()]
void (async () => {
  await holder.unsafe('begin; ' + lock)
  parentPort.once('message', async (pid) => {
    await holder.unsafe('commit')
    for (let state; state !== 'idle'; )
      [{ state }] = await observer.unsafe('select state from pg_stat_activity where pid = ' + pid)
    Atomics.store(flag, 0, 1)
    Atomics.notify(flag, 0)
    await Promise.all([holder.end(), observer.end()])
  })
  parentPort.postMessage('locked')
})()
`

/** Takes the lock; the function that is returned blocks this thread until what waits for it is answered. */
async function holdLock(sql: Sql, lock: string): Promise<(pid: number) => void> {
  const [options] = await sql`
    select current_setting('unix_socket_directories') as host, current_setting('port')::int as port,
           current_database() as database, current_user as username`
  const flag = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(LOCK_HOLDER, { eval: true, workerData: { options, lock, flag } })
  await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
  return (pid) => {
    worker.postMessage(pid)
    Atomics.wait(flag, 0, 0)
  }
}

/** The process of the connection that waits for the lock. */
async function findWaitingPid(sql: Sql): Promise<number> {
  for (;;) {
    const [row] = await sql<{ pid: number }[]>`
      select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    if (row !== undefined) return row.pid
  }
}

function stallEventLoopUntil(at: number): void {
  while (performance.now() < at);
}

t.test('a query that was answered during a stall has its answer', async (t) => {
  const { sql } = await createTestDatabase(t)
  const stallUntilAnswered = await holdLock(sql, 'select pg_advisory_xact_lock(1)')
  const answer = awaitErrorCodeOrOk(
    withDatabaseAnswerTimeout(sql`select pg_advisory_xact_lock(1)`.execute()),
  )
  const dueAt = performance.now() + LIMITS.commitTimeoutMs
  stallUntilAnswered(await findWaitingPid(sql))
  stallEventLoopUntil(dueAt + 1)
  t.equal(await answer, 'ok')
})

t.test('a command whose commit was answered during a stall succeeds', async (t) => {
  const clock = createTestClock()
  const { sql, one } = await createSingleTestActorNode(t, { clock })
  const id = await one.born(0.5)
  const stallUntilAnswered = await holdLock(
    sql,
    `select from aggregates where id = '${id}' for update`,
  )
  const asked = awaitErrorCodeOrOk(one.ask(id, startTaskCommand, sampleTaskInput('stalled')))
  const pid = await findWaitingPid(sql)
  clock.tick(LIMITS.commitTimeoutMs + 1)
  stallUntilAnswered(pid)
  // The runtime looks for overdue commands four times a second.
  stallEventLoopUntil(performance.now() + 250)
  t.equal(await asked, 'ok')
})
