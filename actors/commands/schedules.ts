import { HOUR, MINUTE, DAY } from '../../core/clock.ts'
import { ServiceError, type ErrorCode } from '../../core/errors.ts'
import { backpackPermits } from '../../domain/backpack-permissions.ts'
import { LIMITS } from '../../core/limits.ts'
import { addMicros, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import { agentOwnBalance } from '../../machines/agent/agent-balance.ts'
import type { SchedulePauseReason } from '../../machines/schedule.ts'
import type { Command, CommandContext } from '../command.ts'
import type { ActorSnapshot } from '../machine-registry.ts'

/** The intervals that a schedule may have, in milliseconds. */
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

/** The timers of schedules: `jobs/` hands them to the queue, and they stay until their slot has ended. */
export const SCHEDULE_RUN_TIMER = 'schedule.run'

export interface ScheduleView {
  readonly scheduleId: string
  readonly name: string
  readonly interval: ScheduleInterval
  readonly tool: string
  readonly budget: Micros
  readonly writeToHive: boolean
  /** The key it runs under, by the id its spending is counted under. */
  readonly keyId: string | null
  /** The Backpack its runs act in. */
  readonly backpackId: string | null
  /** Why it is paused, where its credits are not the reason. */
  readonly pausedFor: { readonly reason: SchedulePauseReason; readonly at: number } | null
  readonly state: 'enabled' | 'disabled' | 'paused' | 'cancelled'
  /** The instant of the next run; null where none will come. */
  readonly slot: number | null
  readonly runs: number
  readonly createdAt: number
}

export interface NewSchedule {
  readonly name: string
  readonly interval: ScheduleInterval
  readonly tool: string
  /** JSON text, validated; without credentials where they are sealed. */
  readonly params: string
  /** The whole params, sealed, as hexadecimal digits; null where they hold no credential. */
  readonly sealed: string | null
  readonly budget: Micros
  readonly writeToHive: boolean
  readonly keyId: string | null
  readonly backpackId: string | null
}

export const createScheduleCommand: Command<NewSchedule, ScheduleView> = {
  name: 'schedule.create',
  kind: 'agent',
  apply(ctx, { interval, params, sealed, ...asked }) {
    if (activeSchedules(ctx).length >= LIMITS.schedules) {
      throw new ServiceError('limit_reached', { limit: LIMITS.schedules, of: 'schedules' })
    }
    assertBackpackAllows(ctx, asked.backpackId, asked)
    const scheduleId = ctx.newId()
    const every = SCHEDULE_INTERVALS[interval]
    const input = { ...asked, scheduleId, every, at: ctx.now }
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

/** The name under which a Backpack lists what its agent publishes. */
const HIVE_WRITE_PERMISSION = 'hive_write'

/** What a run of a schedule does. */
type ScheduledRunActions = Pick<NewSchedule, 'tool' | 'writeToHive'>

const requiredPermissions = ({ tool, writeToHive }: ScheduledRunActions) => [
  tool,
  ...(writeToHive ? [HIVE_WRITE_PERMISSION] : []),
]

/** Refuses a schedule in a Backpack that does not name its tool, or `hive_write` where it writes there. */
function assertBackpackAllows(
  ctx: CommandContext,
  backpackId: string | null,
  deed: ScheduledRunActions,
): void {
  if (backpackId === null) return
  if (!ctx.has('backpack', backpackId))
    throw new ServiceError('NOT_FOUND', { backpack_id: backpackId })
  for (const tool of requiredPermissions(deed)) {
    const asked = { tool, amount: ZERO, reservedDay: ZERO, reservedMonth: ZERO, at: ctx.now }
    try {
      ctx.send('backpack', backpackId, { type: 'ASK', ...asked })
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      const { tools } = ctx.snapshotOf('backpack', backpackId).context
      const allowed = error.code === 'TOOL_NOT_ALLOWED' ? { tool, allowed_tools: tools } : {}
      throw new ServiceError(error.code, { backpack_id: backpackId, ...allowed })
    }
  }
}

/** Whether a run may publish what it found: its Backpack may have changed since the schedule was made. */
export function canRunPublishToHive(
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

/** Who asks sees the schedules of one Backpack only; null sees all. */
interface BackpackFilter {
  readonly within?: string | null
}

/** Those that were not cancelled, oldest first. */
export const listSchedulesCommand: Command<BackpackFilter, ScheduleView[]> = {
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

export const getScheduleCommand: Command<ScheduleInputById, ScheduleView> = {
  name: 'schedule.get',
  kind: 'agent',
  apply: (ctx, named) => toScheduleView(ctx.snapshotOf('schedule', requireScheduleId(ctx, named))),
}

export interface ScheduleChange extends ScheduleInputById {
  readonly enabled?: boolean
  readonly name?: string
  readonly budget?: Micros
  readonly writeToHive?: boolean
  /** The key that enables a schedule is charged for its runs from then on. */
  readonly keyId?: string | null
}

export const updateScheduleCommand: Command<ScheduleChange, ScheduleView> = {
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

/** No further run begins; one that is under way ends and is charged. */
export const cancelScheduleCommand: Command<ScheduleInputById, ScheduleView> = {
  name: 'schedule.cancel',
  kind: 'agent',
  apply(ctx, named) {
    const scheduleId = requireScheduleId(ctx, named)
    ctx.send('schedule', scheduleId, { type: 'CANCEL' })
    return armScheduleTimer(ctx, scheduleId)
  },
  note: ({ scheduleId }) => ({ scheduleId }),
}

/** Pauses every schedule that runs under a key, and returns their ids; disabled ones stay as they are. */
export const pauseSchedulesOfKeyCommand: Command<
  { keyId: string; reason: SchedulePauseReason },
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

/** How the run of a slot has ended; `at` and `slot` are instants of the database's clock. */
export interface ScheduleRunOutcome extends ScheduleInputById {
  readonly slot: number
  readonly at: number
  readonly callId: string | null
  readonly cost: Micros
  /** What it might have cost: the budget it began with. */
  readonly budget: Micros
  /** JSON text of what the tool answered; null where it failed or is too long to keep. */
  readonly result: string | null
  /** Why it did not run, or how it failed. */
  readonly error: { readonly code: ErrorCode; readonly needed: Micros } | null
}

/** Ends a slot whose run held nothing: it was refused. */
export const failScheduleRunCommand: Command<ScheduleRunOutcome, void> = {
  name: 'schedule.miss',
  kind: 'agent',
  apply(ctx, end) {
    if (isScheduleRunRetryable(ctx, end)) return
    if (canEndScheduleRun(ctx, end)) completeScheduleRun(ctx, end)
    else if (ctx.has('schedule', end.scheduleId)) armScheduleTimer(ctx, end.scheduleId)
    else ctx.cancelTimer(scheduleTimerId(end.scheduleId))
  },
  note: ({ scheduleId, slot, error }) => ({ scheduleId, slot, code: error?.code ?? null }),
}

/** Whether the run of this slot may still end: a failed one that may not is no failure of the schedule. */
export function canEndScheduleRun(
  ctx: CommandContext,
  { scheduleId, slot }: ScheduleInputById & { slot: number },
): boolean {
  if (!ctx.has('schedule', scheduleId)) return false
  const { slot: present, late } = ctx.snapshotOf('schedule', scheduleId).context
  return slot === present || late.includes(slot)
}

/**
 * Whether a run was refused for credits that its agent has all the same: other calls hold them, or they
 * have arrived since. Nothing is exhausted then, and its slot is tried again.
 */
export function isScheduleRunRetryable(
  ctx: CommandContext,
  { scheduleId, slot, error }: ScheduleRunOutcome,
): boolean {
  if (error?.code !== 'payment_required' || !ctx.has('schedule', scheduleId)) return false
  const { value, context } = ctx.snapshotOf('schedule', scheduleId)
  return value === 'enabled' && context.slot === slot && agentOwnFunds(ctx) >= error.needed
}

/** All that is the agent's own: what calls under way hold may come back without a word. */
const agentOwnFunds = (ctx: CommandContext): Micros =>
  agentOwnBalance(ctx.snapshotOf('agent', ctx.aggregateId).context)

/**
 * Ends the run of a slot, in the commit of its charge: the next slot, what is kept of it, what is
 * told. Refuses with `call_settled` when the slot has ended before, and the charge with it.
 */
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

/** Refusals after which no later run can succeed either, until somebody enables the schedule. */
const PAUSING_ERROR_CODES = ['key_revoked', 'key_expired', 'REVOKED'] as const
const isPausingError = (code: ErrorCode | undefined): code is SchedulePauseReason =>
  (PAUSING_ERROR_CODES as readonly (ErrorCode | undefined)[]).includes(code)

/** What stopped for want of credits goes on when the pool of the agent's fleet can pay for it. */
function waitForFleetPool(ctx: CommandContext, scheduleId: string): void {
  const agentId = ctx.aggregateId
  if (ctx.snapshotOf('agent', agentId).context.fleetId === null) return
  const { ended } = ctx.snapshotOf('schedule', scheduleId).context
  ctx.row('schedules_short', { schedule_id: scheduleId, slot: ended, agent_id: agentId })
}

/** After an agent was taken into a fleet: what had stopped before waits for the pool from now on. */
export function makeSchedulesWaitForFleetPool(ctx: CommandContext): void {
  for (const { id, snapshot } of ctx.all('schedule'))
    if (snapshot.value === 'paused' && snapshot.context.pausedFor === null)
      waitForFleetPool(ctx, id)
}

/** A pool can lend so much: a schedule that had stopped for want of credits may go on. */
export const resumeScheduleWithPoolCommand: Command<ScheduleInputById & { pool: Micros }, void> = {
  name: 'schedule.fund',
  kind: 'agent',
  apply(ctx, { scheduleId, pool }) {
    // One that has left its fleet since has its own money only.
    const inFleet = ctx.snapshotOf('agent', ctx.aggregateId).context.fleetId !== null
    if (ctx.has('schedule', scheduleId)) sendFunded(ctx, scheduleId, inFleet ? pool : ZERO)
  },
  note: ({ scheduleId, pool }) => ({ scheduleId, pool }),
}

/** After credits have arrived: what had stopped for want of them goes on with its next slot. */
export function resumeFundedSchedules(ctx: CommandContext): void {
  if (!ctx.has('agent', ctx.aggregateId)) return
  for (const { id } of ctx.all('schedule')) sendFunded(ctx, id, ZERO)
}

function sendFunded(ctx: CommandContext, scheduleId: string, pool: Micros): void {
  if (ctx.snapshotOf('schedule', scheduleId).value !== 'paused') return
  const balance = addMicros(agentOwnFunds(ctx), pool)
  ctx.send('schedule', scheduleId, { type: 'FUNDED', balance, at: ctx.now })
  armScheduleTimer(ctx, scheduleId)
}

const formatInstant = (at: number): string => new Date(at).toISOString()
const scheduleTimerId = (scheduleId: string): string => `schedule:${scheduleId}`

/** Sets the timer that its state asks for. */
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
    state: value,
    slot,
  }
}
