import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import {
  cancelScheduleCommand,
  createScheduleCommand,
  getScheduleCommand,
  listSchedulesCommand,
  updateScheduleCommand,
  type ScheduleChange,
  type ScheduleView,
} from '../../../actors/commands/schedule-aggregate-commands.ts'
import {
  ERROR_DEFINITIONS as errors,
  invalidInputError,
  ServiceError,
  type ErrorCode,
} from '../../../core/errors.ts'
import { keyFamilyIdForSchedules } from '../../../domain/api-key-spending-limits.ts'
import { fromUsdc, toUsdc } from '../../../core/money.ts'
import { MAX_SCHEDULE_RUN_BUDGET, SCHEDULE_RUN_FEE } from '../../../domain/pricing.ts'
import {
  SINGLE_LINE_TEXT_PATTERN,
  NOT_BLANK_PATTERN,
} from '../../../core/validation/request-schema-regex-patterns.ts'
import type {
  LastScheduleRun,
  ScheduleRecord,
} from '../../../persistence/schedules/schedule-store.ts'
import {
  resolveRequestBackpackId,
  boundBackpackIdOf,
} from '../../auth/request-backpack-and-key-binding-check.ts'
import { parseTaskIdHeader, toBaseCallRequest } from '../../http-tool-call-request.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { hasKeyScope, hasSpendingCap } from '../../auth/api-key-permissions.ts'
import { assertUncappedKey } from '../../plugins/auth.ts'
import {
  assertBudgetCoversScheduledRun,
  assertToolSchedulable,
  toValidatedScheduledCall,
} from '../../actions/scheduled-call-validation.ts'
import {
  RequestUsdcAmountSchema,
  errorResponses,
  PathIdSchema,
  toIsoTime,
  toIsoTimeOrNull,
  schemaRef,
} from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'
import { withBackpackRefusalLogging } from '../../auth/request-api-key-and-backpack.ts'
import { toSpenderPreload } from '../../actions/spender-preload.ts'

import {
  AnyObjectSchema,
  ScheduleIntervalSchema,
  ScheduleSchema,
} from '../../schemas/schedule-schemas.ts'

/** Routes for schedules: tools called at an interval (decision 37). */

const config = { auth: 'key', scope: 'tasks' } as const
const route = (operationId: string, summary: string) => ({
  operationId,
  summary,
  tags: ['tasks'],
  response: { 200: schemaRef(ScheduleSchema), ...errorResponses },
})

const ScheduleName = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: SINGLE_LINE_TEXT_PATTERN,
})
const RunBudgetSchema = RequestUsdcAmountSchema('What one run may cost', {
  maximum: toUsdc(MAX_SCHEDULE_RUN_BUDGET),
})
const parseRunBudget = (usdc: number) => fromUsdc(usdc, '/budget_usdc')
const touchSchedule = (id: string) => ({ touch: [{ kind: 'schedule', id }] as const })

const createSchedule = {
  config: { ...config, bound: 'acts' } as const,
  schema: {
    ...route('createSchedule', 'Run a tool on an interval, first one interval from now'),
    body: Type.Object(
      {
        name: Type.Optional(ScheduleName),
        interval: ScheduleIntervalSchema,
        tool: Type.String({ minLength: 1, maxLength: 64, pattern: NOT_BLANK_PATTERN }),
        params: Type.Optional(AnyObjectSchema),
        budget_usdc: Type.Optional(RunBudgetSchema),
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
        schedules: Type.Array(schemaRef(ScheduleSchema)),
        count: Type.Integer(),
        next_cursor: Type.Null(),
      }),
      ...errorResponses,
    },
  },
}

const scheduleParams = { params: Type.Object({ id: PathIdSchema }) }
const getSchedule = {
  config: { ...config, bound: 'reads' } as const,
  schema: { ...route('getSchedule', 'A schedule'), ...scheduleParams },
}

const setSchedule = {
  config: { ...config, bound: 'acts', servesFrozen: true } as const,
  schema: {
    ...route('setSchedule', 'Change a schedule; `enabled: true` resumes a paused one'),
    ...scheduleParams,
    body: Type.Object(
      {
        enabled: Type.Optional(Type.Boolean()),
        budget_usdc: Type.Optional(RunBudgetSchema),
        write_to_hive: Type.Optional(Type.Boolean()),
        name: Type.Optional(ScheduleName),
      },
      { additionalProperties: false, minProperties: 1 },
    ),
  },
}

const cancelSchedule = {
  config: { ...config, bound: 'acts', servesFrozen: true } as const,
  schema: {
    ...route('cancelSchedule', 'Cancel a schedule: no further run begins'),
    ...scheduleParams,
  },
}

/** Create, list, change and delete schedules. */
export const scheduleRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, calls, catalogue, once, schedules } = app.services
  const assertChange = createChangeCheck(app.services)
  app.addSchema(ScheduleSchema)

  /**
   * Params and the last result are stored beside the actor. The write changes neither, so they are read
   * before it.
   */
  const fileOf = async (agentId: string, scheduleId: string) =>
    (await schedules.filesOf(agentId, [scheduleId])).get(scheduleId)

  app.post('/api/task/schedule', createSchedule, async (request, reply) => {
    const { agentId, apiKey, body } = request
    assertToolsScope(apiKey)
    assertNoTask(request)
    const run = await toValidatedScheduledCall(catalogue, body.tool, body.params ?? {}, agentId)
    const { tool } = run
    const { shown, sealed } = schedules.seal(agentId, run.params)
    const budget =
      body.budget_usdc === undefined ? MAX_SCHEDULE_RUN_BUDGET : parseRunBudget(body.budget_usdc)
    assertBudgetCoversScheduledRun(run, budget)
    const wanted = {
      name: body.name ?? tool.slug,
      interval: body.interval,
      tool: tool.slug,
      params: JSON.stringify(shown),
      sealed,
      budget,
      writeToHive: body.write_to_hive ?? false,
      keyId: apiKey === null ? null : keyFamilyIdForSchedules(apiKey),
      backpackId: resolveRequestBackpackId(request),
    }
    // Skipped on a replay: its schedule exists.
    const runCommand = async (options: object) => {
      await assertToolSchedulable(calls, run, toBaseCallRequest(request, reply))
      const create = () =>
        actors.ask(agentId, createScheduleCommand, wanted, {
          ...toSpenderPreload({ ...wanted, taskId: null }),
          ...options,
        })
      return withBackpackRefusalLogging(request, tool.slug, create)
    }
    return sendIdempotentReply(
      reply,
      once.runCommand(
        toIdempotentRequest(request),
        toScheduleReply({ params: shown, last: null }),
        runCommand,
      ),
    )
  })

  app.get('/api/task/schedules', listSchedules, async (request) => {
    const { agentId } = request
    const views = await actors.ask(agentId, listSchedulesCommand, {
      within: boundBackpackIdOf(request),
    })
    const ids = views.map(({ scheduleId }) => scheduleId)
    const files = await schedules.filesOf(agentId, ids)
    const listed = views.map((view) => presentSchedule(view, files.get(view.scheduleId)))
    return { schedules: listed, count: listed.length, next_cursor: null }
  })

  app.get('/api/task/schedule/:id', getSchedule, async (request) => {
    const { agentId, params } = request
    const named = { scheduleId: params.id, within: boundBackpackIdOf(request) }
    const view = await actors.ask(agentId, getScheduleCommand, named, touchSchedule(params.id))
    return presentSchedule(view, await fileOf(agentId, params.id))
  })

  app.patch('/api/task/schedule/:id', setSchedule, async (request, reply) => {
    const { agentId, params, body } = request
    assertNoTask(request)
    const change = {
      ...toScheduleChange(params.id, body),
      ...toKeyTakeover(request),
      within: boundBackpackIdOf(request),
    }
    const file = await fileOf(agentId, params.id)
    const runCommand = async (options: object) => {
      await assertChange(request, change, file)
      return actors.ask(agentId, updateScheduleCommand, change, {
        ...touchSchedule(params.id),
        ...options,
      })
    }
    return sendIdempotentReply(
      reply,
      once.runCommand(toIdempotentRequest(request), toScheduleReply(file), runCommand),
    )
  })

  app.delete('/api/task/schedule/:id', cancelSchedule, async (request, reply) => {
    const { agentId, params } = request
    const named = { scheduleId: params.id, within: boundBackpackIdOf(request) }
    const file = await fileOf(agentId, params.id)
    const runCommand = (options: object) =>
      actors.ask(agentId, cancelScheduleCommand, named, { ...touchSchedule(params.id), ...options })
    return sendIdempotentReply(
      reply,
      once.runCommand(toIdempotentRequest(request), toScheduleReply(file), runCommand),
    )
  })
}

const toScheduleReply = (file: ScheduleRecord | undefined) => (schedule: ScheduleView) => ({
  status: 200,
  body: presentSchedule(schedule, file),
})

/** Throws without the scope `tools`, since the runs call tools. */
function assertToolsScope(apiKey: FastifyRequest['apiKey']): void {
  if (apiKey === null || hasKeyScope(apiKey, 'tools')) return
  throw new ServiceError('insufficient_scope', { scope: 'tools', scopes: apiKey.scopes })
}

/**
 * Returns a check of changes: throws for a budget below one run, and for a change that the key may not make.
 */
function createChangeCheck({ actors, catalogue }: Pick<HttpServices, 'actors' | 'catalogue'>) {
  return async (
    request: FastifyRequest,
    change: ScheduleChange,
    { params }: ScheduleRecord = NO_FILE,
  ): Promise<void> => {
    const { scheduleId, budget, within = null } = change
    if (budget === undefined && change.enabled !== true) return
    const named = { scheduleId, within }
    const before = await actors.ask(
      request.agentId,
      getScheduleCommand,
      named,
      touchSchedule(scheduleId),
    )
    if (canSpendMore(before, change)) assertMaySpendMore(request, before, change)
    if (budget === undefined || catalogue.find(before.tool) === undefined) return
    const run = await toValidatedScheduledCall(catalogue, before.tool, params, request.agentId)
    assertBudgetCoversScheduledRun(run, budget)
  }
}

const canSpendMore = (before: ScheduleView, { enabled, budget }: ScheduleChange): boolean =>
  (enabled === true && before.state !== 'enabled') ||
  (budget !== undefined && budget > before.budget)

/** Runs come after the task that a request is part of, so it cannot count them (decision 471). */
function assertNoTask(request: FastifyRequest): void {
  if (parseTaskIdHeader(request) === null) return
  throw invalidInputError(
    '/headers/x-task-id',
    'does not limit a schedule: leave it out, and use budget_usdc or a Backpack',
  )
}

/** Throws where a change raises spending under another key's caps. */
function assertMaySpendMore(
  request: FastifyRequest,
  { keyId }: ScheduleView,
  change: ScheduleChange,
): void {
  const { apiKey } = request
  assertToolsScope(apiKey)
  if (apiKey === null || keyFamilyIdForSchedules(apiKey) === keyId) return
  // The key takes the schedule over, so its own caps count the runs.
  if (apiKey.backpackId !== null && change.enabled === true) return
  assertUncappedKey(request, 'let the schedule of another key spend')
}

/** The key that enables a schedule owns its runs from then on: they continue when another key ends. */
function toKeyTakeover({ apiKey }: FastifyRequest): Pick<ScheduleChange, 'keyId'> {
  if (apiKey === null || (apiKey.backpackId === null && hasSpendingCap(apiKey))) return {}
  return { keyId: keyFamilyIdForSchedules(apiKey) }
}

function toScheduleChange(
  scheduleId: string,
  body: Static<(typeof setSchedule)['schema']['body']>,
): ScheduleChange {
  const { enabled, name, budget_usdc: budget, write_to_hive: writeToHive } = body
  return {
    scheduleId,
    ...(enabled === undefined ? {} : { enabled }),
    ...(name === undefined ? {} : { name }),
    ...(budget === undefined ? {} : { budget: parseRunBudget(budget) }),
    ...(writeToHive === undefined ? {} : { writeToHive }),
  }
}

const NO_FILE: ScheduleRecord = { params: {}, last: null }

function presentSchedule(schedule: ScheduleView, { params, last }: ScheduleRecord = NO_FILE) {
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
    run_fee_usdc: toUsdc(SCHEDULE_RUN_FEE),
    created_at: toIsoTime(schedule.createdAt),
    next_run_at: toIsoTimeOrNull(slot),
    last_result: presentPause(schedule) ?? (last === null ? null : presentRun(last)),
  }
}

/** Returns why it is paused when its key or Backpack has ended, since no run reports that. */
function presentPause({ state, pausedFor }: ScheduleView) {
  if (state !== 'paused' || pausedFor === null) return null
  const at = toIsoTime(pausedFor.at)
  const problem = toRunProblem(pausedFor.reason)
  return { at, slot: at, ok: false, problem, cost_usdc: 0, call_id: null }
}

const toRunProblem = (code: ErrorCode) => ({ code, title: errors[code].title })

function presentRun({ at, slot, ok, errorCode, result, cost, callId }: LastScheduleRun) {
  const code = errorCode as ErrorCode | null
  return {
    at: toIsoTime(at),
    slot: toIsoTime(slot),
    ok,
    ...(code === null ? {} : { problem: toRunProblem(code) }),
    ...(result === null ? {} : { result }),
    cost_usdc: toUsdc(cost),
    call_id: callId,
  }
}
