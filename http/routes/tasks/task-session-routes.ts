import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import {
  getActiveTaskCommand,
  cancelTaskCommand,
  endTaskAggregateCommand,
  getTaskCommand,
  listTasksAggregateCommand,
  setTaskBudgetCommand,
  startTaskCommand,
  type TaskView,
} from '../../../actors/commands/task-session-actor-commands.ts'
import { fromUsdc, subtractMicros, toUsdc } from '../../../core/money.ts'
import {
  assertBackpackActive,
  resolveRequestBackpackId,
  boundBackpackIdOf,
} from '../../auth/request-backpack-and-key-binding-check.ts'
import { SINGLE_LINE_TEXT_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import { parseTaskIdHeader } from '../../http-tool-call-request.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { CURSOR_PATTERNS, paginate, PaginationQuery } from '../../schemas/pagination.ts'
import {
  RequestUsdcAmountSchema,
  StrictBody,
  errorResponses,
  PathIdSchema,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  schemaRef,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for task sessions with a budget (decision 35). */

const TaskSchema = Type.Object(
  {
    task_id: Type.String(),
    id: Type.String(),
    name: Type.String(),
    state: Type.Enum(['active', 'completed', 'abandoned']),
    budget_usdc: ResponseUsdcAmountSchema,
    spent_usdc: ResponseUsdcAmountSchema,
    held_usdc: Type.Number({ description: 'Reserved by running calls.' }),
    remaining: Type.Number({ description: 'Remaining budget for further calls, in USDC.' }),
    remaining_usdc: Type.Number({ description: 'The same.' }),
    pct_used: Type.Number(),
    calls: Type.Integer(),
    backpack_id: Nullable(
      Type.String({
        description: 'The Backpack it was started in; keys bound to it may use the task.',
      }),
    ),
    started_at: DateTimeSchema,
    created_at: Type.String({ format: 'date-time', description: 'The same.' }),
    ended_at: Nullable(DateTimeSchema),
  },
  { $id: 'Task' },
)

const TaskSelectionBody = StrictBody(
  {
    task_id: Type.Optional(PathIdSchema),
  },
  { description: 'Without task_id: the task of X-Task-ID, else the newest active one.' },
)

const config = { auth: 'key', scope: 'tasks' } as const
const route = (operationId: string, summary: string) => ({
  operationId,
  summary,
  tags: ['tasks'],
  response: { 200: schemaRef(TaskSchema), ...errorResponses },
})

const touchTask = (id: string) => [{ kind: 'taskSession', id }] as const

const startTask = {
  config: { ...config, bound: 'acts' } as const,
  schema: {
    ...route('startTask', 'Start a task with a budget'),
    body: StrictBody({
      name: Type.String({
        minLength: 1,
        maxLength: 128,
        pattern: SINGLE_LINE_TEXT_PATTERN,
      }),
      budget_usdc: RequestUsdcAmountSchema('What the task may spend'),
    }),
  },
}

const endTask = {
  config: { ...config, bound: 'acts', servesFrozen: true } as const,
  schema: { ...route('endTask', 'Complete a task and get its spending'), body: TaskSelectionBody },
}

const cancelTask = {
  config: { ...config, bound: 'acts', servesFrozen: true } as const,
  schema: { ...route('cancelTask', 'Abandon a task'), body: TaskSelectionBody },
}

const setTaskBudget = {
  config: { ...config, bound: 'acts' } as const,
  schema: {
    ...route('setTaskBudget', 'Set the new total budget of a task'),
    params: Type.Object({ id: PathIdSchema }),
    body: StrictBody({ budget_usdc: RequestUsdcAmountSchema('The new total') }),
  },
}

const getActiveTask = {
  config: { ...config, bound: 'reads' } as const,
  schema: route('getActiveTask', 'The newest active task'),
}

const getTask = {
  config: { ...config, bound: 'reads' } as const,
  schema: { ...route('getTask', 'A task'), params: Type.Object({ id: PathIdSchema }) },
}

const listTasks = {
  config: { ...config, bound: 'reads' } as const,
  schema: {
    operationId: 'listTasks',
    summary: 'Your tasks, including ended ones, newest first',
    tags: ['tasks'],
    querystring: Type.Object({
      ...PaginationQuery,
      state: Type.Optional(Type.Enum(['active', 'completed', 'abandoned'])),
    }),
    response: {
      200: Type.Object({
        tasks: Type.Array(schemaRef(TaskSchema)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...errorResponses,
    },
  },
}

/** Start, fund, end and list task sessions. */
export const taskSessionRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, once, ownLists } = app.services
  app.addSchema(TaskSchema)

  app.post('/api/task/start', startTask, async (request, reply) => {
    const { name, budget_usdc: usdc } = request.body
    const task = {
      name,
      budget: fromUsdc(usdc, '/budget_usdc'),
      backpackId: resolveRequestBackpackId(request),
    }
    return sendIdempotentReply(
      reply,
      once.runCommand(toIdempotentRequest(request), toTaskReply, async (options) => {
        // A bound key's Backpack is checked by the route already.
        if (task.backpackId !== null && boundBackpackIdOf(request) === null)
          await assertBackpackActive(actors, request.agentId, task.backpackId)
        return actors.ask(request.agentId, startTaskCommand, task, options)
      }),
    )
  })

  for (const [path, command, ending] of [
    ['/api/task/end', endTaskAggregateCommand, endTask],
    ['/api/task/cancel', cancelTaskCommand, cancelTask],
  ] as const) {
    app.post(path, ending, async (request, reply) => {
      const taskId = request.body.task_id ?? parseTaskIdHeader(request)
      const within = boundBackpackIdOf(request)
      const known = taskId === null ? {} : { touch: touchTask(taskId) }
      return sendIdempotentReply(
        reply,
        once.runCommand(toIdempotentRequest(request), toTaskReply, (options) =>
          actors.ask(request.agentId, command, { taskId, within }, { ...known, ...options }),
        ),
      )
    })
  }

  app.patch('/api/task/:id/budget', setTaskBudget, async (request, reply) => {
    const { id: taskId } = request.params
    const budget = fromUsdc(request.body.budget_usdc, '/budget_usdc')
    return sendIdempotentReply(
      reply,
      once.runCommand(toIdempotentRequest(request), toTaskReply, (options) =>
        actors.ask(
          request.agentId,
          setTaskBudgetCommand,
          { taskId, budget, within: boundBackpackIdOf(request) },
          { touch: touchTask(taskId), ...options },
        ),
      ),
    )
  })

  app.get('/api/tasks', listTasks, async (request) => {
    const { agentId, query } = request
    const filter = { state: query.state ?? null, backpackId: boundBackpackIdOf(request) }
    const { rows: taskIds, next_cursor } = await paginate(
      query,
      CURSOR_PATTERNS.uuid,
      (limit, before) => ownLists.tasksOf(agentId, filter, limit, before),
      (id) => id,
    )
    const tasks = await actors.ask(
      agentId,
      listTasksAggregateCommand,
      { taskIds },
      { touch: taskIds.flatMap(touchTask) },
    )
    return { tasks: tasks.map(presentTask), count: tasks.length, next_cursor }
  })

  app.get('/api/task/active', getActiveTask, async (request) =>
    presentTask(
      await actors.ask(request.agentId, getActiveTaskCommand, {
        within: boundBackpackIdOf(request),
      }),
    ),
  )

  app.get('/api/task/:id', getTask, async (request) => {
    const named = { taskId: request.params.id, within: boundBackpackIdOf(request) }
    const options = { touch: touchTask(named.taskId) }
    return presentTask(await actors.ask(request.agentId, getTaskCommand, named, options))
  })
}

const toTaskReply = (task: TaskView) => ({ status: 200, body: presentTask(task) })

const remainingBudgetOf = ({ budget, spent, held }: TaskView) =>
  subtractMicros(subtractMicros(budget, spent), held)

const presentTask = (task: TaskView) => ({
  task_id: task.taskId,
  id: task.taskId,
  name: task.name,
  state: task.state,
  budget_usdc: toUsdc(task.budget),
  spent_usdc: toUsdc(task.spent),
  held_usdc: toUsdc(task.held),
  remaining: toUsdc(remainingBudgetOf(task)),
  remaining_usdc: toUsdc(remainingBudgetOf(task)),
  pct_used: Number((task.spent * 10_000n) / task.budget) / 100,
  calls: task.calls,
  backpack_id: task.backpackId,
  started_at: toIsoTime(task.startedAt),
  created_at: toIsoTime(task.startedAt),
  ended_at: toIsoTimeOrNull(task.endedAt),
})
