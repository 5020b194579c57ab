import { HOUR, MINUTE, DAY } from '../../core/clock.ts'
import { ServiceError, type ErrorCode } from '../../core/errors.ts'
import { backpackPermits } from '../../domain/backpack-spending-permissions.ts'
import { LIMITS } from '../../core/limits.ts'
import { addMicros, toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import { agentBalanceWithoutFleetLoans } from '../../machines/agent/agent-balance.ts'
import type { SchedulePauseErrorCode } from '../../machines/schedule-machine.ts'
import type { AggregateCommand, CommandContext } from '../aggregate-command-types.ts'
import type { ActorSnapshot } from '../machine-registry.ts'

/** Intervals of schedules, in milliseconds. */
export const SCHEDULE_INTERVALS = {
  '5m': 5 * MINUTE,
  '30m': 30 * MINUTE,
  '1h': HOUR,
  '6h': 6 * HOUR,
  '12h': 12 * HOUR,
  '1d': DAY,
  '1w': 7 * DAY,
} as const
export type ScheduleInterval = keyof typeof SCHEDULE_INTERVALS

/** Timers of schedules. `jobs/` moves them to the queue; they stay until their slot has ended. */
export const SCHEDULE_RUN_TIMER = 'schedule.run'

export interface ScheduleView {
  readonly scheduleId: string
  readonly name: string
  readonly interval: ScheduleInterval
  readonly tool: string
  readonly budget: Micros
  readonly writeToHive: boolean
  readonly keyId: string | null
  readonly backpackId: string | null
  /** Why it is paused; null when it lacks credits. */
  readonly pausedFor: { readonly reason: SchedulePauseErrorCode; readonly at: number } | null
  readonly state: 'enabled' | 'disabled' | 'paused' | 'cancelled'
  /** Time of the next run; null when there is none. */
  readonly slot: number | null
  readonly runs: number
  readonly createdAt: number
}

export interface NewSchedule {
  readonly name: string
  readonly interval: ScheduleInterval
  readonly tool: string
  /** Validated JSON text. Without credentials when `sealed` is set. */
  readonly params: string
  /** The full params, encrypted, in hexadecimal; null when they hold no credential. */
  readonly sealed: string | null
  readonly budget: Micros
  readonly writeToHive: boolean
  readonly keyId: string | null
  readonly backpackId: string | null
}

export const createScheduleCommand: AggregateCommand<NewSchedule, ScheduleView> = {
  name: 'schedule.create',
  kind: 'agent',
  apply(ctx, { interval, params, sealed, ...fields }) {
    if (activeSchedules(ctx).length >= LIMITS.schedules) {
      throw new ServiceError('limit_reached', { limit: LIMITS.schedules, of: 'schedules' })
    }
    assertBackpackAllows(ctx, fields.backpackId, fields)
    const scheduleId = ctx.newId()
    const every = SCHEDULE_INTERVALS[interval]
    const input = { ...fields, scheduleId, every, at: ctx.now }
    ctx.create('schedule', scheduleId, input)
    ctx.row('schedule_params', {
      schedule_id: scheduleId,
      agent_id: ctx.aggregateId,
      params,
      sealed: sealed === null ? null : `\\x${sealed}`,
    })
    return armScheduleTimer(ctx, scheduleId)
  },
  note: ({ interval, tool, budget }) => ({ interval, tool, budget }),
}

/** The permission that lets a Backpack publish to the Hive. */
const HIVE_WRITE_PERMISSION = 'hive_write'

const NO_AMOUNTS = { amount: ZERO_MICROS, reservedDay: ZERO_MICROS, reservedMonth: ZERO_MICROS }

type ScheduledRunActions = Pick<NewSchedule, 'tool' | 'writeToHive'>

const requiredPermissions = ({ tool, writeToHive }: ScheduledRunActions) => [
  tool,
  ...(writeToHive ? [HIVE_WRITE_PERMISSION] : []),
]

/** Throws when the Backpack does not permit the tool, or publishing without `hive_write`. */
function assertBackpackAllows(
  ctx: CommandContext,
  backpackId: string | null,
  actions: ScheduledRunActions,
): void {
  if (backpackId === null) return
  if (!ctx.has('backpack', backpackId))
    throw new ServiceError('NOT_FOUND', { backpack_id: backpackId })
  for (const tool of requiredPermissions(actions)) {
    try {
      ctx.send('backpack', backpackId, { type: 'ASK', tool, ...NO_AMOUNTS, at: ctx.now })
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      const { tools } = ctx.snapshotOf('backpack', backpackId).context
      const allowed = error.code === 'TOOL_NOT_ALLOWED' ? { tool, allowed_tools: tools } : {}
      throw new ServiceError(error.code, { backpack_id: backpackId, ...allowed })
    }
  }
}

/** Whether a run may publish its result: its Backpack may have changed since the creation. */
export function canScheduleRunPublishToHive(
  ctx: CommandContext,
  { writeToHive, backpackId }: HivePublishing,
): boolean {
  if (!writeToHive || backpackId === null) return writeToHive
  return (
    ctx.has('backpack', backpackId) &&
    backpackPermits(ctx.snapshotOf('backpack', backpackId).context.tools, HIVE_WRITE_PERMISSION)
  )
}

type HivePublishing = Pick<NewSchedule, 'writeToHive' | 'backpackId'>

/** Limits the result to one Backpack; null means all schedules. */
interface BackpackFilter {
  readonly within?: string | null
}

/** Schedules that are not cancelled, oldest first. */
export const listSchedulesCommand: AggregateCommand<BackpackFilter, ScheduleView[]> = {
  name: 'schedule.list',
  kind: 'agent',
  apply: (ctx, { within = null }) =>
    activeSchedules(ctx)
      .filter(({ snapshot }) => within === null || snapshot.context.backpackId === within)
      .map(({ snapshot }) => toScheduleView(snapshot))
      .sort((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1)),
}

interface ScheduleInputById extends BackpackFilter {
  readonly scheduleId: string
}

export const getScheduleCommand: AggregateCommand<ScheduleInputById, ScheduleView> = {
  name: 'schedule.get',
  kind: 'agent',
  apply: (ctx, named) => toScheduleView(ctx.snapshotOf('schedule', requireScheduleId(ctx, named))),
}

export interface ScheduleChange extends ScheduleInputById {
  readonly enabled?: boolean
  readonly name?: string
  readonly budget?: Micros
  readonly writeToHive?: boolean
  /** The key that enables a schedule pays for its later runs. */
  readonly keyId?: string | null
}

export const updateScheduleCommand: AggregateCommand<ScheduleChange, ScheduleView> = {
  name: 'schedule.set',
  kind: 'agent',
  apply(ctx, { scheduleId, enabled, within = null, keyId, ...change }) {
    requireScheduleId(ctx, { scheduleId, within })
    const { backpackId, tool } = ctx.snapshotOf('schedule', scheduleId).context
    if ((enabled === true || change.writeToHive === true) && backpackId !== null) {
      if (!ctx.has('backpack', backpackId))
        throw new ServiceError('REVOKED', { backpack_id: backpackId })
      assertBackpackAllows(ctx, backpackId, { tool, writeToHive: change.writeToHive === true })
    }
    ctx.send('schedule', scheduleId, { type: 'CHANGE', ...change })
    const by = keyId === undefined ? {} : { keyId }
    if (enabled === true) ctx.send('schedule', scheduleId, { type: 'ENABLE', at: ctx.now, ...by })
    if (enabled === false) ctx.send('schedule', scheduleId, { type: 'DISABLE' })
    return armScheduleTimer(ctx, scheduleId)
  },
  note: ({ scheduleId, enabled = null, budget = null }) => ({ scheduleId, enabled, budget }),
}

/** No further run starts. A run under way finishes and is charged. */
export const cancelScheduleCommand: AggregateCommand<ScheduleInputById, ScheduleView> = {
  name: 'schedule.cancel',
  kind: 'agent',
  apply(ctx, named) {
    const scheduleId = requireScheduleId(ctx, named)
    ctx.send('schedule', scheduleId, { type: 'CANCEL' })
    return armScheduleTimer(ctx, scheduleId)
  },
  note: ({ scheduleId }) => ({ scheduleId }),
}

/** Pauses the enabled schedules that run under a key. Returns their ids. */
export const pauseSchedulesOfKeyCommand: AggregateCommand<
  { keyId: string; reason: SchedulePauseErrorCode },
  string[]
> = {
  name: 'schedule.pause_of',
  kind: 'agent',
  apply(ctx, { keyId, reason }) {
    const mine = activeSchedules(ctx).filter(({ snapshot }) => snapshot.context.keyId === keyId)
    return mine
      .filter(({ snapshot }) => snapshot.value !== 'disabled')
      .map(({ id, snapshot }) => {
        if (snapshot.context.pausedFor === null)
          ctx.send('schedule', id, { type: 'PAUSE', reason, at: ctx.now })
        return armScheduleTimer(ctx, id).scheduleId
      })
      .sort()
  },
  note: ({ keyId, reason }) => ({ keyId, reason }),
}

/** How the run of a slot ended. `at` and `slot` are database times in milliseconds. */
export interface ScheduleRunOutcome extends ScheduleInputById {
  readonly slot: number
  readonly at: number
  readonly callId: string | null
  readonly cost: Micros
  /** The budget the run started with. */
  readonly budget: Micros
  /** JSON text of the result; null when the run failed or the result is too long. */
  readonly result: string | null
  /** Why it did not run, or how it failed. */
  readonly error: { readonly code: ErrorCode; readonly needed: Micros } | null
}

/** Ends a slot whose run was rejected and held nothing. */
export const failScheduleRunCommand: AggregateCommand<ScheduleRunOutcome, void> = {
  name: 'schedule.miss',
  kind: 'agent',
  apply(ctx, end) {
    if (isUnderfundedScheduleRunRetryable(ctx, end)) return
    if (canEndScheduleRun(ctx, end)) completeScheduleRun(ctx, end)
    else if (ctx.has('schedule', end.scheduleId)) armScheduleTimer(ctx, end.scheduleId)
    else ctx.cancelTimer(scheduleTimerId(end.scheduleId))
  },
  note: ({ scheduleId, slot, error }) => ({ scheduleId, slot, code: error?.code ?? null }),
}

/** Whether the run of this slot is still open. The failure of a closed slot is ignored. */
export function canEndScheduleRun(
  ctx: CommandContext,
  { scheduleId, slot }: ScheduleInputById & { slot: number },
): boolean {
  if (!ctx.has('schedule', scheduleId)) return false
  const { slot: present, late } = ctx.snapshotOf('schedule', scheduleId).context
  return slot === present || late.includes(slot)
}

/** Whether a run rejected for lack of credits can be retried: the agent owns enough, held or new. */
export function isUnderfundedScheduleRunRetryable(
  ctx: CommandContext,
  { scheduleId, slot, error }: ScheduleRunOutcome,
): boolean {
  if (error?.code !== 'payment_required' || !ctx.has('schedule', scheduleId)) return false
  const { value, context } = ctx.snapshotOf('schedule', scheduleId)
  return value === 'enabled' && context.slot === slot && agentOwnFunds(ctx) >= error.needed
}

/** The agent's own balance, including held amounts: a running call may release them. */
const agentOwnFunds = (ctx: CommandContext): Micros =>
  agentBalanceWithoutFleetLoans(ctx.snapshotOf('agent', ctx.aggregateId).context)

/** Ends a slot in the commit of its charge. Throws `call_settled` when it has ended already. */
export function completeScheduleRun(ctx: CommandContext, end: ScheduleRunOutcome): void {
  const { scheduleId, slot, at, budget, error } = end
  const { value: before, context } = ctx.snapshotOf('schedule', scheduleId)
  const { name, tool } = context
  if (error?.code === 'payment_required') {
    const { value } = ctx.send('schedule', scheduleId, {
      type: 'EXHAUSTED',
      slot,
      needed: error.needed,
    })
    if (value === 'paused' && before !== 'paused') waitForFleetPool(ctx, scheduleId)
  } else if (isPausingError(error?.code)) {
    ctx.send('schedule', scheduleId, { type: 'BARRED', slot, reason: error.code, at })
  } else ctx.send('schedule', scheduleId, { type: 'RAN', slot, at })
  armScheduleTimer(ctx, scheduleId)
  ctx.row('schedule_runs', {
    schedule_id: scheduleId,
    slot: formatInstant(slot),
    agent_id: ctx.aggregateId,
    call_id: end.callId,
    ok: error === null,
    error_code: error?.code ?? null,
    cost_micros: end.cost.toString(),
    budget_micros: budget.toString(),
    result: end.result,
    at: formatInstant(at),
  })
  ctx.event({
    type: 'schedule.result',
    to: ctx.aggregateId,
    data: {
      schedule_id: scheduleId,
      name,
      tool,
      slot: formatInstant(slot),
      ok: error === null,
      cost_usdc: toUsdc(end.cost),
      call_id: end.callId,
      ...(error === null ? {} : { code: error.code }),
    },
  })
}

/** Errors that also stop later runs, until the schedule is enabled again. */
const PAUSING_ERROR_CODES = ['key_revoked', 'key_expired', 'REVOKED'] as const
const isPausingError = (code: ErrorCode | undefined): code is SchedulePauseErrorCode =>
  (PAUSING_ERROR_CODES as readonly (ErrorCode | undefined)[]).includes(code)

/** A schedule without credits resumes when its agent's fleet pool can pay. */
function waitForFleetPool(ctx: CommandContext, scheduleId: string): void {
  const agentId = ctx.aggregateId
  if (ctx.snapshotOf('agent', agentId).context.fleetId === null) return
  const { ended } = ctx.snapshotOf('schedule', scheduleId).context
  ctx.row('underfunded_schedules', { schedule_id: scheduleId, slot: ended, agent_id: agentId })
}

/** After an agent joins a fleet, its underfunded schedules wait for the fleet pool. */
export function makeSchedulesWaitForFleetPool(ctx: CommandContext): void {
  for (const { id, snapshot } of ctx.all('schedule'))
    if (snapshot.value === 'paused' && snapshot.context.pausedFor === null)
      waitForFleetPool(ctx, id)
}

/** Resumes an underfunded schedule when the pool can lend enough. */
export const resumeScheduleWithFleetPoolCommand: AggregateCommand<
  ScheduleInputById & { pool: Micros },
  void
> = {
  name: 'schedule.fund',
  kind: 'agent',
  apply(ctx, { scheduleId, pool }) {
    // An agent that has left its fleet has only its own balance.
    const inFleet = ctx.snapshotOf('agent', ctx.aggregateId).context.fleetId !== null
    if (ctx.has('schedule', scheduleId)) sendFunded(ctx, scheduleId, inFleet ? pool : ZERO_MICROS)
  },
  note: ({ scheduleId, pool }) => ({ scheduleId, pool }),
}

/** Resumes underfunded schedules with their next slot, after a deposit. */
export function resumeFundedSchedules(ctx: CommandContext): void {
  if (!ctx.has('agent', ctx.aggregateId)) return
  for (const { id } of ctx.all('schedule')) sendFunded(ctx, id, ZERO_MICROS)
}

function sendFunded(ctx: CommandContext, scheduleId: string, pool: Micros): void {
  if (ctx.snapshotOf('schedule', scheduleId).value !== 'paused') return
  const balance = addMicros(agentOwnFunds(ctx), pool)
  ctx.send('schedule', scheduleId, { type: 'FUNDED', balance, at: ctx.now })
  armScheduleTimer(ctx, scheduleId)
}

const formatInstant = (at: number): string => new Date(at).toISOString()
const scheduleTimerId = (scheduleId: string): string => `schedule:${scheduleId}`

/** Sets or cancels the timer according to the state. */
function armScheduleTimer(ctx: CommandContext, scheduleId: string): ScheduleView {
  const snapshot = ctx.snapshotOf('schedule', scheduleId)
  const { slot } = snapshot.context
  const id = scheduleTimerId(scheduleId)
  if (snapshot.value !== 'enabled' || slot === null) ctx.cancelTimer(id)
  else ctx.timer({ id, dueAt: slot, command: SCHEDULE_RUN_TIMER, input: { scheduleId, slot } })
  return toScheduleView(snapshot)
}

const activeSchedules = (ctx: CommandContext) =>
  ctx.all('schedule').filter(({ snapshot }) => snapshot.value !== 'cancelled')

function requireScheduleId(
  ctx: CommandContext,
  { scheduleId, within = null }: ScheduleInputById,
): string {
  const isThere = ctx.has('schedule', scheduleId)
  const of = isThere ? ctx.snapshotOf('schedule', scheduleId).context.backpackId : null
  if (isThere && (within === null || of === within)) return scheduleId
  throw new ServiceError('schedule_not_found', { schedule_id: scheduleId })
}

const INTERVAL_NAMES = new Map(
  Object.entries(SCHEDULE_INTERVALS).map(([name, every]) => [every, name as ScheduleInterval]),
)

function toScheduleView({ value, context }: ActorSnapshot<'schedule'>): ScheduleView {
  const { scheduleId, name, tool, every, budget, writeToHive, keyId, runs, createdAt } = context
  const { backpackId, pausedFor } = context
  const interval = INTERVAL_NAMES.get(every as never)
  if (interval === undefined) throw new Error(`no interval of ${every} ms`)
  const slot = value === 'enabled' ? context.slot : null
  return {
    ...{ scheduleId, name, interval, tool, budget, writeToHive, keyId, runs, createdAt },
    ...{ backpackId, pausedFor },
    ...{ slot, state: value },
  }
}
