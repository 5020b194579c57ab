import { HOUR, MINUTE, DAY } from '../../core/clock.ts'
import { ServiceError, type ErrorCode } from '../../core/errors.ts'
import { permits } from '../../core/backpack-permissions.ts'
import { LIMITS } from '../../core/limits.ts'
import { add, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import { balanceOf } from '../../machines/purse.ts'
import type { PauseReason } from '../../machines/schedule.ts'
import type { Command, Turn } from '../command.ts'
import type { SnapshotOf } from '../registry.ts'

/** The intervals that a schedule may have, in milliseconds. */
export const INTERVALS = {
  '5m': 5 * MINUTE,
  '30m': 30 * MINUTE,
  '1h': HOUR,
  '6h': 6 * HOUR,
  '12h': 12 * HOUR,
  '1d': DAY,
  '1w': 7 * DAY,
} as const
export type Interval = keyof typeof INTERVALS

/** The timers of schedules: `jobs/` hands them to the queue, and they stay until their slot has ended. */
export const SCHEDULE_TIMER = 'schedule.run'

export interface ScheduleView {
  readonly scheduleId: string
  readonly name: string
  readonly interval: Interval
  readonly tool: string
  readonly budget: Micros
  readonly writeToHive: boolean
  /** The key it runs under, by the id its spending is counted under. */
  readonly keyId: string | null
  /** The Backpack its runs act in. */
  readonly backpackId: string | null
  /** Why it is paused, where its credits are not the reason. */
  readonly pausedFor: { readonly reason: PauseReason; readonly at: number } | null
  readonly state: 'enabled' | 'disabled' | 'paused' | 'cancelled'
  /** The instant of the next run; null where none will come. */
  readonly slot: number | null
  readonly runs: number
  readonly createdAt: number
}

export interface NewSchedule {
  readonly name: string
  readonly interval: Interval
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

export const scheduleCreate: Command<NewSchedule, ScheduleView> = {
  name: 'schedule.create',
  kind: 'agent',
  apply(turn, { interval, params, sealed, ...asked }) {
    if (open(turn).length >= LIMITS.schedules) {
      throw new ServiceError('limit_reached', { limit: LIMITS.schedules, of: 'schedules' })
    }
    assertListed(turn, asked.backpackId, asked)
    const scheduleId = turn.id()
    const every = INTERVALS[interval]
    const input = { ...asked, scheduleId, every, at: turn.now }
    turn.create('schedule', scheduleId, input)
    turn.row('schedule_params', {
      schedule_id: scheduleId,
      agent_id: turn.aggregateId,
      params,
      sealed: sealed === null ? null : `\\x${sealed}`,
    })
    return arranged(turn, scheduleId)
  },
  note: ({ interval, tool, budget }) => ({ interval, tool, budget }),
}

/** The name under which a Backpack lists what its agent publishes. */
const HIVE_WRITE = 'hive_write'

/** What a run of a schedule does. */
type RunDeed = Pick<NewSchedule, 'tool' | 'writeToHive'>

const namesOf = ({ tool, writeToHive }: RunDeed) => [tool, ...(writeToHive ? [HIVE_WRITE] : [])]

/** Refuses a schedule in a Backpack that does not name its tool, or `hive_write` where it writes there. */
function assertListed(turn: Turn, backpackId: string | null, deed: RunDeed): void {
  if (backpackId === null) return
  if (!turn.has('backpack', backpackId))
    throw new ServiceError('NOT_FOUND', { backpack_id: backpackId })
  for (const tool of namesOf(deed)) {
    const asked = { tool, amount: ZERO, reservedDay: ZERO, reservedMonth: ZERO, at: turn.now }
    try {
      turn.step('backpack', backpackId, { type: 'ASK', ...asked })
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      const { tools } = turn.peek('backpack', backpackId).context
      const allowed = error.code === 'TOOL_NOT_ALLOWED' ? { tool, allowed_tools: tools } : {}
      throw new ServiceError(error.code, { backpack_id: backpackId, ...allowed })
    }
  }
}

/** Whether a run may publish what it found: its Backpack may have changed since the schedule was made. */
export function mayPublish(turn: Turn, { writeToHive, backpackId }: Publishing): boolean {
  if (!writeToHive || backpackId === null) return writeToHive
  return (
    turn.has('backpack', backpackId) &&
    permits(turn.peek('backpack', backpackId).context.tools, HIVE_WRITE)
  )
}

type Publishing = Pick<NewSchedule, 'writeToHive' | 'backpackId'>

/** Who asks sees the schedules of one Backpack only; null sees all. */
interface Within {
  readonly within?: string | null
}

/** Those that were not cancelled, oldest first. */
export const scheduleList: Command<Within, ScheduleView[]> = {
  name: 'schedule.list',
  kind: 'agent',
  apply: (turn, { within = null }) =>
    open(turn)
      .filter(({ snapshot }) => within === null || snapshot.context.backpackId === within)
      .map(({ snapshot }) => view(snapshot))
      .sort((a, b) => (a.scheduleId < b.scheduleId ? -1 : 1)),
}

interface Named extends Within {
  readonly scheduleId: string
}

export const scheduleGet: Command<Named, ScheduleView> = {
  name: 'schedule.get',
  kind: 'agent',
  apply: (turn, named) => view(turn.peek('schedule', known(turn, named))),
}

export interface ScheduleChange extends Named {
  readonly enabled?: boolean
  readonly name?: string
  readonly budget?: Micros
  readonly writeToHive?: boolean
  /** The key that enables a schedule is charged for its runs from then on. */
  readonly keyId?: string | null
}

export const scheduleSet: Command<ScheduleChange, ScheduleView> = {
  name: 'schedule.set',
  kind: 'agent',
  apply(turn, { scheduleId, enabled, within = null, keyId, ...change }) {
    known(turn, { scheduleId, within })
    const { backpackId, tool } = turn.peek('schedule', scheduleId).context
    if ((enabled === true || change.writeToHive === true) && backpackId !== null) {
      if (!turn.has('backpack', backpackId))
        throw new ServiceError('REVOKED', { backpack_id: backpackId })
      assertListed(turn, backpackId, { tool, writeToHive: change.writeToHive === true })
    }
    turn.step('schedule', scheduleId, { type: 'CHANGE', ...change })
    const by = keyId === undefined ? {} : { keyId }
    if (enabled === true) turn.step('schedule', scheduleId, { type: 'ENABLE', at: turn.now, ...by })
    if (enabled === false) turn.step('schedule', scheduleId, { type: 'DISABLE' })
    return arranged(turn, scheduleId)
  },
  note: ({ scheduleId, enabled = null, budget = null }) => ({ scheduleId, enabled, budget }),
}

/** No further run begins; one that is under way ends and is charged. */
export const scheduleCancel: Command<Named, ScheduleView> = {
  name: 'schedule.cancel',
  kind: 'agent',
  apply(turn, named) {
    const scheduleId = known(turn, named)
    turn.step('schedule', scheduleId, { type: 'CANCEL' })
    return arranged(turn, scheduleId)
  },
  note: ({ scheduleId }) => ({ scheduleId }),
}

/** Pauses every schedule that runs under a key, and returns their ids; disabled ones stay as they are. */
export const schedulePauseOf: Command<{ keyId: string; reason: PauseReason }, string[]> = {
  name: 'schedule.pause_of',
  kind: 'agent',
  apply(turn, { keyId, reason }) {
    const mine = open(turn).filter(({ snapshot }) => snapshot.context.keyId === keyId)
    return mine
      .filter(({ snapshot }) => snapshot.value !== 'disabled')
      .map(({ id, snapshot }) => {
        if (snapshot.context.pausedFor === null)
          turn.step('schedule', id, { type: 'PAUSE', reason, at: turn.now })
        return arranged(turn, id).scheduleId
      })
      .sort()
  },
  note: ({ keyId, reason }) => ({ keyId, reason }),
}

/** How the run of a slot has ended; `at` and `slot` are instants of the database's clock. */
export interface RunEnd extends Named {
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
export const scheduleMiss: Command<RunEnd, void> = {
  name: 'schedule.miss',
  kind: 'agent',
  apply(turn, end) {
    if (staysDue(turn, end)) return
    if (mayEnd(turn, end)) endRun(turn, end)
    else if (turn.has('schedule', end.scheduleId)) arranged(turn, end.scheduleId)
    else turn.cancelTimer(timerOf(end.scheduleId))
  },
  note: ({ scheduleId, slot, error }) => ({ scheduleId, slot, code: error?.code ?? null }),
}

/** Whether the run of this slot may still end: a failed one that may not is no failure of the schedule. */
export function mayEnd(turn: Turn, { scheduleId, slot }: Named & { slot: number }): boolean {
  if (!turn.has('schedule', scheduleId)) return false
  const { slot: present, late } = turn.peek('schedule', scheduleId).context
  return slot === present || late.includes(slot)
}

/**
 * Whether a run was refused for credits that its agent has all the same: other calls hold them, or they
 * have arrived since. Nothing is exhausted then, and its slot is tried again.
 */
export function staysDue(turn: Turn, { scheduleId, slot, error }: RunEnd): boolean {
  if (error?.code !== 'payment_required' || !turn.has('schedule', scheduleId)) return false
  const { value, context } = turn.peek('schedule', scheduleId)
  return value === 'enabled' && context.slot === slot && owned(turn) >= error.needed
}

/** All that is the agent's own: what calls under way hold may come back without a word. */
const owned = (turn: Turn): Micros => balanceOf(turn.peek('agent', turn.aggregateId).context)

/**
 * Ends the run of a slot, in the commit of its charge: the next slot, what is kept of it, what is
 * told. Refuses with `call_settled` when the slot has ended before, and the charge with it.
 */
export function endRun(turn: Turn, end: RunEnd): void {
  const { scheduleId, slot, at, budget, error } = end
  const { value: before, context } = turn.peek('schedule', scheduleId)
  const { name, tool } = context
  if (error?.code === 'payment_required') {
    const { value } = turn.step('schedule', scheduleId, {
      type: 'EXHAUSTED',
      slot,
      needed: error.needed,
    })
    if (value === 'paused' && before !== 'paused') awaitPool(turn, scheduleId)
  } else if (isBarring(error?.code)) {
    turn.step('schedule', scheduleId, { type: 'BARRED', slot, reason: error.code, at })
  } else turn.step('schedule', scheduleId, { type: 'RAN', slot, at })
  arranged(turn, scheduleId)
  turn.row('schedule_runs', {
    schedule_id: scheduleId,
    slot: instant(slot),
    agent_id: turn.aggregateId,
    call_id: end.callId,
    ok: error === null,
    error_code: error?.code ?? null,
    cost_micros: end.cost.toString(),
    budget_micros: budget.toString(),
    result: end.result,
    at: instant(at),
  })
  turn.event({
    type: 'schedule.result',
    to: turn.aggregateId,
    data: {
      schedule_id: scheduleId,
      name,
      tool,
      slot: instant(slot),
      ok: error === null,
      cost_usdc: toUsdc(end.cost),
      call_id: end.callId,
      ...(error === null ? {} : { code: error.code }),
    },
  })
}

/** Refusals after which no later run can succeed either, until somebody enables the schedule. */
const BARRING = ['key_revoked', 'key_expired', 'REVOKED'] as const
const isBarring = (code: ErrorCode | undefined): code is PauseReason =>
  (BARRING as readonly (ErrorCode | undefined)[]).includes(code)

/** What stopped for want of credits goes on when the pool of the agent's fleet can pay for it. */
function awaitPool(turn: Turn, scheduleId: string): void {
  const agentId = turn.aggregateId
  if (turn.peek('agent', agentId).context.fleetId === null) return
  const { ended } = turn.peek('schedule', scheduleId).context
  turn.row('schedules_short', { schedule_id: scheduleId, slot: ended, agent_id: agentId })
}

/** After an agent was taken into a fleet: what had stopped before waits for the pool from now on. */
export function awaitPools(turn: Turn): void {
  for (const { id, snapshot } of turn.all('schedule'))
    if (snapshot.value === 'paused' && snapshot.context.pausedFor === null) awaitPool(turn, id)
}

/** A pool can lend so much: a schedule that had stopped for want of credits may go on. */
export const scheduleFund: Command<Named & { pool: Micros }, void> = {
  name: 'schedule.fund',
  kind: 'agent',
  apply(turn, { scheduleId, pool }) {
    // One that has left its fleet since has its own money only.
    const inFleet = turn.peek('agent', turn.aggregateId).context.fleetId !== null
    if (turn.has('schedule', scheduleId)) fund(turn, scheduleId, inFleet ? pool : ZERO)
  },
  note: ({ scheduleId, pool }) => ({ scheduleId, pool }),
}

/** After credits have arrived: what had stopped for want of them goes on with its next slot. */
export function resumeSchedules(turn: Turn): void {
  if (!turn.has('agent', turn.aggregateId)) return
  for (const { id } of turn.all('schedule')) fund(turn, id, ZERO)
}

function fund(turn: Turn, scheduleId: string, pool: Micros): void {
  if (turn.peek('schedule', scheduleId).value !== 'paused') return
  const balance = add(owned(turn), pool)
  turn.step('schedule', scheduleId, { type: 'FUNDED', balance, at: turn.now })
  arranged(turn, scheduleId)
}

const instant = (at: number): string => new Date(at).toISOString()
const timerOf = (scheduleId: string): string => `schedule:${scheduleId}`

/** Sets the timer that its state asks for. */
function arranged(turn: Turn, scheduleId: string): ScheduleView {
  const snapshot = turn.peek('schedule', scheduleId)
  const { slot } = snapshot.context
  const id = timerOf(scheduleId)
  if (snapshot.value !== 'enabled' || slot === null) turn.cancelTimer(id)
  else turn.timer({ id, dueAt: slot, command: SCHEDULE_TIMER, input: { scheduleId, slot } })
  return view(snapshot)
}

const open = (turn: Turn) =>
  turn.all('schedule').filter(({ snapshot }) => snapshot.value !== 'cancelled')

function known(turn: Turn, { scheduleId, within = null }: Named): string {
  const isThere = turn.has('schedule', scheduleId)
  const of = isThere ? turn.peek('schedule', scheduleId).context.backpackId : null
  if (isThere && (within === null || of === within)) return scheduleId
  throw new ServiceError('schedule_not_found', { schedule_id: scheduleId })
}

const NAMES = new Map(Object.entries(INTERVALS).map(([name, every]) => [every, name as Interval]))

function view({ value, context }: SnapshotOf<'schedule'>): ScheduleView {
  const { scheduleId, name, tool, every, budget, writeToHive, keyId, runs, createdAt } = context
  const { backpackId, pausedFor } = context
  const interval = NAMES.get(every as never)
  if (interval === undefined) throw new Error(`no interval of ${every} ms`)
  const slot = value === 'enabled' ? context.slot : null
  return {
    ...{ scheduleId, name, interval, tool, budget, writeToHive, keyId, runs, createdAt },
    ...{ backpackId, pausedFor },
    state: value,
    slot,
  }
}
