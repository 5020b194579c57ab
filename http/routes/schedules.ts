import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import {
  INTERVALS,
  scheduleCancel,
  scheduleCreate,
  scheduleGet,
  scheduleList,
  scheduleSet,
  type Interval,
  type ScheduleChange,
  type ScheduleView,
} from '../../actors/commands/schedules.ts'
import { catalogue as errors, ServiceError, type ErrorCode } from '../../core/errors.ts'
import { familyIdOf } from '../../core/key-terms.ts'
import { fromUsdc, toUsdc } from '../../core/money.ts'
import { LARGEST_RUN_BUDGET, SCHEDULE_RUN } from '../../core/prices.ts'
import { LABEL, SAID } from '../../core/said.ts'
import type { LastRun, ScheduleFile } from '../../persistence/schedules.ts'
import { backpackOf, bindingOf } from '../binding.ts'
import { frame } from '../call-request.ts'
import { answer, asked } from '../idempotency.ts'
import { allows, hasCap } from '../key-powers.ts'
import { demandUncapped } from '../plugins/auth.ts'
import { demandBudget, demandRunnable, runAsked } from '../schedule-check.ts'
import {
  Amount,
  failures,
  Id,
  Instant,
  instant,
  maybeInstant,
  Nullable,
  ref,
  Usdc,
} from '../schemas.ts'
import type { Services } from '../services.ts'
import { noted } from '../spending.ts'
import { touchingBackpack } from '../touched-backpack.ts'

const AnyObject = Type.Record(Type.String(), Type.Unknown())
const names = Object.keys(INTERVALS) as Interval[]
const Every = Type.Enum(names as [Interval, ...Interval[]])

const LastResult = Type.Object({
  at: Instant,
  slot: Type.String({ format: 'date-time', description: 'When the run was due.' }),
  ok: Type.Boolean(),
  result: Type.Optional(
    Type.Unknown({ description: 'What the tool answered; absent where it was too long to keep.' }),
  ),
  problem: Type.Optional(Type.Object({ code: Type.String(), title: Type.String() })),
  cost_usdc: Usdc,
  call_id: Nullable(Type.String()),
})

const Schedule = Type.Object(
  {
    schedule_id: Type.String(),
    id: Type.String(),
    name: Type.String(),
    interval: Every,
    tool: Type.String(),
    params: Type.Record(Type.String(), Type.Unknown(), {
      description: 'What its tool is asked; credentials are kept sealed and show as `[redacted]`.',
    }),
    budget_usdc: Type.Number({ description: 'What one run may cost.' }),
    write_to_hive: Type.Boolean(),
    backpack_id: Nullable(Type.String({ description: 'The Backpack its runs act in.' })),
    enabled: Type.Boolean(),
    state: Type.Enum(['enabled', 'disabled', 'paused', 'cancelled']),
    runs: Type.Integer(),
    run_fee_usdc: Type.Number({ description: 'What a run costs beside its tool.' }),
    created_at: Instant,
    next_run_at: Nullable(Instant),
    last_result: Nullable(LastResult),
  },
  { $id: 'Schedule' },
)

const config = { auth: 'key', scope: 'tasks' } as const
const route = (operationId: string, summary: string) => ({
  operationId,
  summary,
  tags: ['tasks'],
  response: { 200: ref(Schedule), ...failures },
})

const ScheduleName = Type.String({ minLength: 1, maxLength: 128, pattern: LABEL })
const RunBudget = Amount('What one run may cost', { maximum: toUsdc(LARGEST_RUN_BUDGET) })
const runBudget = (usdc: number) => fromUsdc(usdc, '/budget_usdc')
const touching = (id: string) => ({ touch: [{ kind: 'schedule', id }] as const })

const createSchedule = {
  config: { ...config, bound: 'acts' } as const,
  schema: {
    ...route('createSchedule', 'Run a tool on an interval, first one interval from now'),
    body: Type.Object(
      {
        name: Type.Optional(ScheduleName),
        interval: Every,
        tool: Type.String({ minLength: 1, maxLength: 64, pattern: SAID }),
        params: Type.Optional(AnyObject),
        budget_usdc: Type.Optional(RunBudget),
        write_to_hive: Type.Optional(Type.Boolean()),
      },
      { additionalProperties: false },
    ),
  },
}

const listSchedules = {
  config: { ...config, bound: 'reads' } as const,
  schema: {
    ...route('listSchedules', 'The schedules that were not cancelled'),
    response: {
      200: Type.Object({
        schedules: Type.Array(ref(Schedule)),
        count: Type.Integer(),
        next_cursor: Type.Null(),
      }),
      ...failures,
    },
  },
}

const one = { params: Type.Object({ id: Id }) }
const getSchedule = {
  config: { ...config, bound: 'reads' } as const,
  schema: { ...route('getSchedule', 'A schedule'), ...one },
}

const setSchedule = {
  config: { ...config, bound: 'acts' } as const,
  schema: {
    ...route('setSchedule', 'Change a schedule; `enabled: true` resumes a paused one'),
    ...one,
    body: Type.Object(
      {
        enabled: Type.Optional(Type.Boolean()),
        budget_usdc: Type.Optional(RunBudget),
        write_to_hive: Type.Optional(Type.Boolean()),
        name: Type.Optional(ScheduleName),
      },
      { additionalProperties: false, minProperties: 1 },
    ),
  },
}

const cancelSchedule = {
  config: { ...config, bound: 'acts' } as const,
  schema: { ...route('cancelSchedule', 'Cancel a schedule: no further run begins'), ...one },
}

/** Tools on an interval (decision 37). */
export const scheduleRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, calls, catalogue, once, schedules } = app.services
  const demandChange = changeCheck(app.services)
  app.addSchema(Schedule)

  /** Params and the last result lie beside the actor: read before the write, which changes neither. */
  const fileOf = async (agentId: string, scheduleId: string) =>
    (await schedules.filesOf(agentId, [scheduleId])).get(scheduleId)

  app.post('/api/task/schedule', createSchedule, async (request, reply) => {
    const { agentId, apiKey, body } = request
    demandTools(apiKey)
    const run = runAsked(catalogue, body.tool, body.params ?? {})
    const { tool } = run
    const { shown, sealed } = schedules.seal(agentId, run.params)
    const budget = body.budget_usdc === undefined ? LARGEST_RUN_BUDGET : runBudget(body.budget_usdc)
    demandBudget(run, budget)
    const wanted = {
      name: body.name ?? tool.slug,
      interval: body.interval,
      tool: tool.slug,
      params: JSON.stringify(shown),
      sealed,
      budget,
      writeToHive: body.write_to_hive ?? false,
      keyId: apiKey === null ? null : familyIdOf(apiKey),
      backpackId: backpackOf(request),
    }
    // Not asked of a repetition: what it made is there.
    const ask = async (options: object) => {
      await demandRunnable(calls, run, frame(request, reply))
      const create = () =>
        actors.ask(agentId, scheduleCreate, wanted, {
          ...touchingBackpack(wanted.backpackId),
          ...options,
        })
      return noted(request, tool.slug, create)
    }
    return answer(reply, once.command(asked(request), told({ params: shown, last: null }), ask))
  })

  app.get('/api/task/schedules', listSchedules, async (request) => {
    const { agentId } = request
    const views = await actors.ask(agentId, scheduleList, { within: bindingOf(request) })
    const ids = views.map(({ scheduleId }) => scheduleId)
    const files = await schedules.filesOf(agentId, ids)
    const listed = views.map((view) => present(view, files.get(view.scheduleId)))
    return { schedules: listed, count: listed.length, next_cursor: null }
  })

  app.get('/api/task/schedule/:id', getSchedule, async (request) => {
    const { agentId, params } = request
    const named = { scheduleId: params.id, within: bindingOf(request) }
    const view = await actors.ask(agentId, scheduleGet, named, touching(params.id))
    return present(view, await fileOf(agentId, params.id))
  })

  app.patch('/api/task/schedule/:id', setSchedule, async (request, reply) => {
    const { agentId, params, body } = request
    const change = {
      ...changeOf(params.id, body),
      ...takeOver(request),
      within: bindingOf(request),
    }
    const file = await fileOf(agentId, params.id)
    const ask = async (options: object) => {
      await demandChange(request, change, file)
      return actors.ask(agentId, scheduleSet, change, { ...touching(params.id), ...options })
    }
    return answer(reply, once.command(asked(request), told(file), ask))
  })

  app.delete('/api/task/schedule/:id', cancelSchedule, async (request, reply) => {
    const { agentId, params } = request
    const named = { scheduleId: params.id, within: bindingOf(request) }
    const file = await fileOf(agentId, params.id)
    const ask = (options: object) =>
      actors.ask(agentId, scheduleCancel, named, { ...touching(params.id), ...options })
    return answer(reply, once.command(asked(request), told(file), ask))
  })
}

const told = (file: ScheduleFile | undefined) => (schedule: ScheduleView) => ({
  status: 200,
  body: present(schedule, file),
})

/** Its runs call tools: a key that may not cannot have it done. */
function demandTools(apiKey: FastifyRequest['apiKey']): void {
  if (apiKey === null || allows(apiKey, 'tools')) return
  throw new ServiceError('insufficient_scope', { scope: 'tools', scopes: apiKey.scopes })
}

/** Refuses a budget that no run would fit, and a change that the key of the request may not make. */
function changeCheck({ actors, catalogue }: Pick<Services, 'actors' | 'catalogue'>) {
  return async (
    request: FastifyRequest,
    change: ScheduleChange,
    { params }: ScheduleFile = NO_FILE,
  ): Promise<void> => {
    const { scheduleId, budget, within = null } = change
    if (budget === undefined && change.enabled !== true) return
    const named = { scheduleId, within }
    const before = await actors.ask(request.agentId, scheduleGet, named, touching(scheduleId))
    if (spendsMore(before, change)) demandSpender(request, before, change)
    if (budget === undefined || catalogue.find(before.tool) === undefined) return
    demandBudget(runAsked(catalogue, before.tool, params), budget)
  }
}

const spendsMore = (before: ScheduleView, { enabled, budget }: ScheduleChange): boolean =>
  (enabled === true && before.state !== 'enabled') ||
  (budget !== undefined && budget > before.budget)

/** Runs count under the caps of the key they run under: for another one it is a way around. */
function demandSpender(
  request: FastifyRequest,
  { keyId }: ScheduleView,
  change: ScheduleChange,
): void {
  const { apiKey } = request
  demandTools(apiKey)
  if (apiKey === null || familyIdOf(apiKey) === keyId) return
  // It takes the schedule over, and its own caps count the runs.
  if (apiKey.backpackId !== null && change.enabled === true) return
  demandUncapped(request, 'let the schedule of another key spend')
}

/** A key that enables a schedule answers for its runs from then on: they go on after another key has ended. */
function takeOver({ apiKey }: FastifyRequest): Pick<ScheduleChange, 'keyId'> {
  if (apiKey === null || (apiKey.backpackId === null && hasCap(apiKey))) return {}
  return { keyId: familyIdOf(apiKey) }
}

function changeOf(
  scheduleId: string,
  body: Static<(typeof setSchedule)['schema']['body']>,
): ScheduleChange {
  const { enabled, name, budget_usdc: budget, write_to_hive: writeToHive } = body
  return {
    scheduleId,
    ...(enabled === undefined ? {} : { enabled }),
    ...(name === undefined ? {} : { name }),
    ...(budget === undefined ? {} : { budget: runBudget(budget) }),
    ...(writeToHive === undefined ? {} : { writeToHive }),
  }
}

const NO_FILE: ScheduleFile = { params: {}, last: null }

function present(schedule: ScheduleView, { params, last }: ScheduleFile = NO_FILE) {
  const { state, slot } = schedule
  return {
    schedule_id: schedule.scheduleId,
    id: schedule.scheduleId,
    name: schedule.name,
    interval: schedule.interval,
    tool: schedule.tool,
    params,
    budget_usdc: toUsdc(schedule.budget),
    write_to_hive: schedule.writeToHive,
    backpack_id: schedule.backpackId,
    enabled: state === 'enabled',
    state,
    runs: schedule.runs,
    run_fee_usdc: toUsdc(SCHEDULE_RUN),
    created_at: instant(schedule.createdAt),
    next_run_at: maybeInstant(slot),
    last_result: presentPause(schedule) ?? (last === null ? null : presentRun(last)),
  }
}

/** Why it is paused, where its key or its Backpack has ended: no run says so. */
function presentPause({ state, pausedFor }: ScheduleView) {
  if (state !== 'paused' || pausedFor === null) return null
  const at = instant(pausedFor.at)
  const problem = problemOf(pausedFor.reason)
  return { at, slot: at, ok: false, problem, cost_usdc: 0, call_id: null }
}

const problemOf = (code: ErrorCode) => ({ code, title: errors[code].title })

function presentRun({ at, slot, ok, errorCode, result, cost, callId }: LastRun) {
  const code = errorCode as ErrorCode | null
  return {
    at: instant(at),
    slot: instant(slot),
    ok,
    ...(code === null ? {} : { problem: problemOf(code) }),
    ...(result === null ? {} : { result }),
    cost_usdc: toUsdc(cost),
    call_id: callId,
  }
}
