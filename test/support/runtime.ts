import type { Command } from '../../actors/command.ts'
import { runtime, type RuntimeParts } from '../../actors/runtime.ts'
import { timers } from '../../actors/timers.ts'
import type { Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import { fromUsdc, ZERO, type Micros } from '../../core/money.ts'
import type { CallRow } from '../../core/rows.ts'
import { isDatabaseLost } from '../../http/database-lost.ts'
import type { Admission } from '../../payments/admission.ts'
import { holdExpire, type Settlement } from '../../payments/commands/call.ts'
import { agentCreate } from '../../payments/commands/purse.ts'
import { absorb } from '../../payments/absorb.ts'
import { aggregateStore, type AggregateStore } from '../../persistence/aggregates.ts'
import { callLog } from '../../persistence/call-log.ts'
import { commitBatch } from '../../persistence/commit.ts'
import type { Sql } from '../../persistence/plane.ts'
import { verify } from '../../persistence/verify.ts'
import { statementFaults } from './statement-faults.ts'

interface Teardown {
  teardown(work: () => unknown): unknown
}

/** A clock whose two hands move only when told to; it starts at the real time, as the database's. */
export function testClock(
  start = Date.now(),
): Clock & { pass(ms: number): void; tick(ms: number): void } {
  let [at, mono] = [start, 1_000_000]
  return {
    now: () => at,
    mono: () => mono,
    correct: () => {},
    anchor: () => {},
    disturbed: () => false,
    pass: (ms) => void (at += ms),
    tick: (ms) => void (mono += ms),
  }
}

/** A clock on which no two looks are the same: what would collide by its instant does not. */
export function runningClock(): Clock {
  let at = Date.now()
  return { ...testClock(), now: () => (at += 1) }
}

type Commit = RuntimeParts['commit']
type Outcome = Awaited<ReturnType<Commit>>
/** What happens to one commit instead of being sent and answered. */
export type Fault = (
  send: () => Promise<Outcome>,
  changes: Parameters<Commit>[0],
) => Promise<Outcome>

class ConnectionLost extends Error {
  readonly code = 'CONNECTION_CLOSED'
}

/** The connection breaks before anything was sent. */
export const lostBefore: Fault = async () => {
  throw new ConnectionLost('before it was sent')
}
/** The commit lands, its answer is lost. */
export const lostAfter: Fault = async (send) => {
  await send()
  throw new ConnectionLost('after it landed')
}

/** A gate: whoever waits at it goes on when it is opened. */
export function gate() {
  let open = () => {}
  let arrive = () => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  const reached = new Promise<void>((resolve) => (arrive = resolve))
  return {
    open,
    /** Resolves when somebody waits at the gate. */
    reached,
    pass: () => {
      arrive()
      return opened
    },
  }
}
export type Gate = ReturnType<typeof gate>

export const heldBefore =
  (at: Gate): Fault =>
  async (send) => {
    await at.pass()
    return send()
  }
export const heldAfter =
  (at: Gate): Fault =>
  async (send) => {
    const outcome = await send()
    await at.pass()
    return outcome
  }

export interface NodeOptions {
  readonly clock?: Clock
  readonly cache?: RuntimeParts['cache']
  readonly resident?: number
  readonly store?: (store: AggregateStore) => AggregateStore
  readonly timerCommands?: readonly Command<never, void>[]
}

/** One node: a runtime and its timers over a database it may share with others. */
export function node(t: Teardown, sql: Sql, options: NodeOptions = {}) {
  const { clock = testClock(), cache = null, resident, store: wrap = (one) => one } = options
  const store = wrap(aggregateStore(sql))
  const faults: Fault[] = []
  const logged: { message: string; error: unknown }[] = []
  const log = (message: string, error: unknown) => void logged.push({ message, error })
  let commits = 0
  const dues: number[] = []
  const actors = runtime({
    clock,
    store,
    callLog: callLog(sql),
    cache,
    commit(changes, assertions) {
      commits += 1
      const send = () => commitBatch(sql, changes, assertions)
      return faults.shift()?.(send, changes) ?? send()
    },
    isOutage: isDatabaseLost,
    absorb,
    log,
    ...(resident === undefined ? {} : { resident }),
    onTimer: (dueAt) => void dues.push(dueAt),
  })
  const commands = options.timerCommands ?? [holdExpire as Command<never, void>]
  const alarms = timers({ clock, actors, store, commands, log })
  t.teardown(async () => {
    await alarms.stop()
    await actors.close()
  })
  const { ask } = actors
  return {
    ...actors,
    ask,
    alarms,
    store,
    /** Befall the next commits, in order. */
    faults,
    logged,
    dues,
    commits: () => commits,
    /** An agent with so much promotional credit. */
    async born(promo: number, id = newId(clock.now())): Promise<string> {
      const birth = { agentId: id, starter: fromUsdc(promo), rows: [] }
      await ask(id, agentCreate, birth, { fresh: true })
      return id
    },
  }
}
export type Node = ReturnType<typeof node>

export const admission = (amount: number, more: Partial<Admission> = {}): Admission => ({
  callId: newId(Date.now()),
  tool: 'web_search',
  amount: fromUsdc(amount),
  key: null,
  taskId: null,
  backpackId: null,
  idempotencyKey: null,
  payment: null,
  expiresAt: null,
  ...more,
})

/** The call row of an admission. */
export const rowOf = (asked: Admission, agentId: string, more: Partial<CallRow> = {}): CallRow => ({
  callId: asked.callId,
  agentId,
  keyId: asked.key?.id ?? null,
  operation: 'refuel',
  tool: asked.tool,
  rail: 'credits',
  cost: asked.amount,
  status: 'ok',
  errorCode: null,
  ms: 1,
  taskId: asked.taskId,
  backpackId: asked.backpackId,
  ghost: false,
  idempotencyKey: asked.idempotencyKey,
  requestHash: asked.idempotencyKey === null ? null : 'hash',
  response: asked.idempotencyKey === null ? null : '{"status":200,"body":{}}',
  at: 0,
  ...more,
})

export function settlement(
  asked: Admission,
  agentId: string,
  cost: Micros = asked.amount,
  more: Partial<Settlement> = {},
): Settlement {
  const row = ({ at }: { at: number }) => rowOf(asked, agentId, { cost, at })
  const call = { callId: asked.callId, cost, key: asked.key, row, rows: [], events: [] }
  return { ...call, promoTransferable: true, ...more }
}

export const failure = (asked: Admission, agentId: string) => ({
  callId: asked.callId,
  row: ({ at }: { at: number }) =>
    rowOf(asked, agentId, { cost: ZERO, status: 'failed', errorCode: 'upstream_error', at }),
})

export const touch = (asked: Pick<Admission, 'taskId' | 'backpackId'>) => ({
  touch: [
    ...(asked.taskId === null ? [] : [{ kind: 'taskSession' as const, id: asked.taskId }]),
    ...(asked.backpackId === null ? [] : [{ kind: 'backpack' as const, id: asked.backpackId }]),
  ],
})

/** `ok`, or the code of the refusal; anything else that is thrown is thrown on. */
export const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'ok',
    (error: unknown) => {
      if (error instanceof ServiceError) return error.code
      throw error
    },
  )

/** What `gas verify` finds broken, by rule, and what statements do; empty on a sound database. */
export async function breaches(sql: Sql): Promise<Record<string, unknown[]>> {
  const findings = [
    ...(await verify(sql)),
    { rule: 'statements', broken: await statementFaults(sql) },
  ]
  return Object.fromEntries(
    findings
      .filter(({ broken }) => broken.length > 0)
      .map(({ rule, broken }) => [rule, [...broken]]),
  )
}
