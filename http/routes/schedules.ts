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
import { catalogue as errors, invalid, ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { fromUsdc, toUsdc } from '../../core/money.ts'
import { LARGEST_RUN_BUDGET, SCHEDULE_RUN } from '../../core/prices.ts'
import { SAID } from '../../core/said.ts'
import type { LastRun, ScheduleFile } from '../../persistence/schedules.ts'
import { toolFields } from '../../calls/fields.ts'
import type { Catalogue } from '../../tools/catalogue.ts'
import { answer, asked } from '../idempotency.ts'
import { allows } from '../plugins/auth.ts'
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
    name: Type.String(),
    interval: Every,
    tool: Type.String(),
    params: AnyObject,
    budget_usdc: Type.Number({ description: 'What one run may cost.' }),
    write_to_hive: Type.Boolean(),
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

const ScheduleName = Type.String({ minLength: 1, maxLength: 128, pattern: SAID })
const RunBudget = Amount('What one run may cost', { maximum: toUsdc(LARGEST_RUN_BUDGET) })
const runBudget = (usdc: number) => fromUsdc(usdc, '/budget_usdc')
const touching = (id: string) => ({ touch: [{ kind: 'schedule', id }] as const })

const createSchedule = {
  config,
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
  config,
  schema: {
    ...route('listSchedules', 'The schedules that were not cancelled'),
    response: {
      200: Type.Object({ schedules: Type.Array(ref(Schedule)), count: Type.Integer() }),
      ...failures,
    },
  },
}

const one = { params: Type.Object({ id: Id }) }
const getSchedule = { config, schema: { ...route('getSchedule', 'A schedule'), ...one } }

const setSchedule = {
  config,
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
  config,
  schema: { ...route('cancelSchedule', 'Cancel a schedule: no further run begins'), ...one },
}

/** Tools on an interval: spec 4.4, decision 37. */
export const scheduleRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, catalogue, once, schedules } = app.services
  app.addSchema(Schedule)

  /** Params and the last result lie beside the actor: read before the write, which changes neither. */
  const fileOf = async (agentId: string, scheduleId: string) =>
    (await schedules.filesOf(agentId, [scheduleId])).get(scheduleId)

  app.post('/api/task/schedule', createSchedule, async (request, reply) => {
    const { agentId, apiKey, body } = request
    demandTools(apiKey)
    const { slug, params } = checked(catalogue, body.tool, body.params ?? {})
    const wanted = {
      name: body.name ?? slug,
      interval: body.interval,
      tool: slug,
      params: JSON.stringify(params),
      budget: body.budget_usdc === undefined ? LARGEST_RUN_BUDGET : runBudget(body.budget_usdc),
      writeToHive: body.write_to_hive ?? false,
      keyId: apiKey?.id ?? null,
    }
    const ask = (options: object) => actors.ask(agentId, scheduleCreate, wanted, options)
    return answer(reply, once.command(asked(request), told({ params, last: null }), ask))
  })

  app.get('/api/task/schedules', listSchedules, async ({ agentId }) => {
    const views = await actors.ask(agentId, scheduleList, {})
    const ids = views.map(({ scheduleId }) => scheduleId)
    const files = await schedules.filesOf(agentId, ids)
    const listed = views.map((view) => present(view, files.get(view.scheduleId)))
    return { schedules: listed, count: listed.length }
  })

  app.get('/api/task/schedule/:id', getSchedule, async ({ agentId, params }) => {
    const named = { scheduleId: params.id }
    const view = await actors.ask(agentId, scheduleGet, named, touching(params.id))
    return present(view, await fileOf(agentId, params.id))
  })

  app.patch('/api/task/schedule/:id', setSchedule, async (request, reply) => {
    const { agentId, params, body } = request
    const change = changeOf(params.id, body)
    const file = await fileOf(agentId, params.id)
    const ask = (options: object) =>
      actors.ask(agentId, scheduleSet, change, { ...touching(params.id), ...options })
    return answer(reply, once.command(asked(request), told(file), ask))
  })

  app.delete('/api/task/schedule/:id', cancelSchedule, async (request, reply) => {
    const { agentId, params } = request
    const named = { scheduleId: params.id }
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

/** The tool exists and takes these fields. */
function checked(catalogue: Catalogue, slug: string, params: Record<string, unknown>) {
  if (Buffer.byteLength(JSON.stringify(params)) > LIMITS.scheduleParamsBytes) {
    throw invalid('/params', `must have at most ${LIMITS.scheduleParamsBytes} bytes as JSON`)
  }
  const tool = catalogue.get(slug)
  const fields = toolFields(params, tool)
  try {
    catalogue.validateInput(tool, tool.normalise?.(fields) ?? fields)
  } catch (error) {
    throw error instanceof ServiceError ? withinParams(error) : error
  }
  return { slug: tool.slug, params: fields }
}

/** The tool knows its fields, not where the request has them. */
function withinParams({ code, details }: ServiceError): ServiceError {
  const misfits = (details['errors'] ?? []) as readonly { pointer: string; detail: string }[]
  const errors = misfits.map(({ pointer, detail }) => ({ pointer: `/params${pointer}`, detail }))
  const detail = errors.map((misfit) => `${misfit.pointer} ${misfit.detail}`)[0]
  return new ServiceError(code, { errors, ...(detail === undefined ? {} : { detail }) })
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
    name: schedule.name,
    interval: schedule.interval,
    tool: schedule.tool,
    params,
    budget_usdc: toUsdc(schedule.budget),
    write_to_hive: schedule.writeToHive,
    enabled: state === 'enabled',
    state,
    runs: schedule.runs,
    run_fee_usdc: toUsdc(SCHEDULE_RUN),
    created_at: instant(schedule.createdAt),
    next_run_at: maybeInstant(slot),
    last_result: last === null ? null : presentRun(last),
  }
}

function presentRun({ at, slot, ok, errorCode, result, cost, callId }: LastRun) {
  const code = errorCode as keyof typeof errors | null
  return {
    at: instant(at),
    slot: instant(slot),
    ok,
    ...(code === null ? {} : { problem: { code, title: errors[code].title } }),
    ...(result === null ? {} : { result }),
    cost_usdc: toUsdc(cost),
    call_id: callId,
  }
}
