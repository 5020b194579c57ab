import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import { createActorRuntime, type ActorRuntimeDeps } from '../../../actors/actor-runtime.ts'
import { createTimerRunner } from '../../../actors/timer-runner.ts'
import type { Clock } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc, ZERO_MICROS, type Micros } from '../../../core/money.ts'
import type { CallRow } from '../../../core/aggregate-commit-row-types.ts'
import { isDatabaseUnavailableError } from '../../../http/detect-database-unavailable-error.ts'
import type { CallAdmissionRequest } from '../../../payments/agent-call-admission-request-types.ts'
import {
  expireCallHoldCommand,
  type SettleCallInput,
} from '../../../payments/commands/call-commands.ts'
import { createAgentCommand } from '../../../payments/commands/agent-account-commands.ts'
import { applyAggregateInboxMessage } from '../../../payments/aggregate-inbox-message-handler.ts'
import { createAggregateStore, type AggregateStore } from '../../../persistence/aggregate-store.ts'
import { createCallLogStore } from '../../../persistence/calls/call-log-store.ts'
import { commitBatch } from '../../../persistence/commit-batch.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { verifyDatabaseInvariants } from '../../../persistence/verify/verify-database-invariants.ts'
import { findAccountStatementFaults } from '../ledger/find-account-statement-faults.ts'

/** One runtime node for tests, with a controllable clock and commit faults. */

interface Teardown {
  teardown(work: () => unknown): unknown
}

/**
 * A clock that moves only when the test advances it; it starts at the real time, which is the
 * database's time.
 */
export function createTestClock(
  start = Date.now(),
): Clock & { pass(ms: number): void; tick(ms: number): void } {
  let [at, mono] = [start, 1_000_000]
  return {
    now: () => at,
    mono: () => mono,
    adjust: () => {},
    setJumpBaseline: () => {},
    hasJumped: () => false,
    pass: (ms) => void (at += ms),
    tick: (ms) => void (mono += ms),
  }
}

/** A clock that never returns the same time twice, so that no ids collide. */
export function createStrictlyIncreasingClock(): Clock {
  let at = Date.now()
  return { ...createTestClock(), now: () => (at += 1) }
}

type CommitFunction = ActorRuntimeDeps['commit']
type CommitReply = Awaited<ReturnType<CommitFunction>>
/** Replaces the sending and the reply of one commit. */
export type CommitFault = (
  send: () => Promise<CommitReply>,
  changes: Parameters<CommitFunction>[0],
) => Promise<CommitReply>

class ConnectionLost extends Error {
  readonly code = 'CONNECTION_CLOSED'
}

/** The connection breaks before the commit is sent. */
export const loseConnectionBeforeCommit: CommitFault = async () => {
  throw new ConnectionLost('before it was sent')
}
/** The commit succeeds, but its reply is lost. */
export const loseReplyAfterCommit: CommitFault = async (send) => {
  await send()
  throw new ConnectionLost('after it landed')
}

/** A gate that blocks callers until it is opened. */
export function createTestPauseGate(callers = 1) {
  let open = () => {}
  let arrive = () => {}
  let arrived = 0
  const opened = new Promise<void>((resolve) => (open = resolve))
  const reached = new Promise<void>((resolve) => (arrive = resolve))
  return {
    open,
    /** Resolves when `callers` of them wait at the gate. */
    reached,
    pass: () => {
      arrived += 1
      if (arrived >= callers) arrive()
      return opened
    },
  }
}
export type TestPauseGate = ReturnType<typeof createTestPauseGate>

export const pauseBeforeCommit =
  (at: TestPauseGate): CommitFault =>
  async (send) => {
    await at.pass()
    return send()
  }
export const pauseAfterCommit =
  (at: TestPauseGate): CommitFault =>
  async (send) => {
    const outcome = await send()
    await at.pass()
    return outcome
  }

export interface TestActorNodeOptions {
  readonly clock?: Clock
  readonly cache?: ActorRuntimeDeps['cache']
  readonly resident?: number
  readonly store?: (store: AggregateStore) => AggregateStore
  readonly timerCommands?: readonly AggregateCommand<never, void>[]
}

/** Creates a node: a runtime with timers over a database that other nodes may share. */
export function createTestActorNode(t: Teardown, sql: Sql, options: TestActorNodeOptions = {}) {
  const { clock = createTestClock(), cache = null, resident, store: wrap = (one) => one } = options
  const store = wrap(createAggregateStore(sql))
  const faults: CommitFault[] = []
  const logged: { message: string; error: unknown }[] = []
  const log = (message: string, error: unknown) => void logged.push({ message, error })
  let commits = 0
  const dues: number[] = []
  const actors = createActorRuntime({
    clock,
    store,
    callLog: createCallLogStore(sql),
    cache,
    commit(changes, assertions) {
      commits += 1
      const send = () => commitBatch(sql, changes, assertions)
      return faults.shift()?.(send, changes) ?? send()
    },
    isOutage: isDatabaseUnavailableError,
    absorb: applyAggregateInboxMessage,
    log,
    ...(resident === undefined ? {} : { resident }),
    onTimer: (dueAt) => void dues.push(dueAt),
  })
  const commands = options.timerCommands ?? [expireCallHoldCommand as AggregateCommand<never, void>]
  const alarms = createTimerRunner({ clock, actors, store, commands, log })
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
    /** Applied to the next commits, in order. */
    faults,
    logged,
    dues,
    commits: () => commits,
    /** Creates an agent with this promotional balance. */
    async born(promo: number, id = newUuidV7(clock.now())): Promise<string> {
      const birth = { agentId: id, starter: fromUsdc(promo), rows: [] }
      await ask(id, createAgentCommand, birth, { fresh: true })
      return id
    },
  }
}
export type TestActorNode = ReturnType<typeof createTestActorNode>

export const sampleCallAdmissionRequest = (
  amount: number,
  more: Partial<CallAdmissionRequest> = {},
): CallAdmissionRequest => ({
  callId: newUuidV7(Date.now()),
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
export const callRowOfAdmission = (
  asked: CallAdmissionRequest,
  agentId: string,
  more: Partial<CallRow> = {},
): CallRow => ({
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

export function settleCallInputOfAdmission(
  asked: CallAdmissionRequest,
  agentId: string,
  cost: Micros = asked.amount,
  more: Partial<SettleCallInput> = {},
): SettleCallInput {
  const row = ({ at }: { at: number }) => callRowOfAdmission(asked, agentId, { cost, at })
  const call = { callId: asked.callId, cost, key: asked.key, row, rows: [], events: [] }
  return { ...call, promoTransferable: true, ...more }
}

export const failCallInputOfAdmission = (asked: CallAdmissionRequest, agentId: string) => ({
  callId: asked.callId,
  row: ({ at }: { at: number }) =>
    callRowOfAdmission(asked, agentId, {
      cost: ZERO_MICROS,
      status: 'failed',
      errorCode: 'upstream_error',
      at,
    }),
})

export const touchedAggregatesOfAdmission = (
  asked: Pick<CallAdmissionRequest, 'taskId' | 'backpackId'>,
) => ({
  touch: [
    ...(asked.taskId === null ? [] : [{ kind: 'taskSession' as const, id: asked.taskId }]),
    ...(asked.backpackId === null ? [] : [{ kind: 'backpack' as const, id: asked.backpackId }]),
  ],
})

/** Returns `ok` or the error code of a rejection; rethrows any other error. */
export const awaitErrorCodeOrOk = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'ok',
    (error: unknown) => {
      if (error instanceof ServiceError) return error.code
      throw error
    },
  )

/**
 * Rule violations of `gas verify` and faults of statements, by rule; empty for a sound database.
 */
export async function findInvariantViolations(
  sql: Sql,
  archiveDir: string | null = null,
): Promise<Record<string, unknown[]>> {
  const findings = [
    ...(await verifyDatabaseInvariants(sql, archiveDir)),
    { rule: 'statements', broken: await findAccountStatementFaults(sql) },
  ]
  return Object.fromEntries(
    findings
      .filter(({ broken }) => broken.length > 0)
      .map(({ rule, broken }) => [rule, [...broken]]),
  )
}
