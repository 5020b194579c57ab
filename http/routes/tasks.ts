import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import {
  taskActive,
  taskCancel,
  taskEnd,
  taskGet,
  taskList,
  taskSetBudget,
  taskStart,
  type TaskView,
} from '../../actors/commands/tasks.ts'
import { fromUsdc, subtract, toUsdc } from '../../core/money.ts'
import { assertActive, backpackOf, bindingOf } from '../binding.ts'
import { LABEL } from '../../core/said.ts'
import { taskHeader } from '../call-request.ts'
import { answer, asked } from '../idempotency.ts'
import { CURSOR, page, Paging } from '../paging.ts'
import {
  Amount,
  Body,
  failures,
  Id,
  Instant,
  instant,
  maybeInstant,
  Nullable,
  ref,
  Usdc,
} from '../schemas.ts'

const Task = Type.Object(
  {
    task_id: Type.String(),
    id: Type.String(),
    name: Type.String(),
    state: Type.Enum(['active', 'completed', 'abandoned']),
    budget_usdc: Usdc,
    spent_usdc: Usdc,
    held_usdc: Type.Number({ description: 'Reserved by calls that are running.' }),
    remaining: Type.Number({ description: 'What further calls may cost, in USDC.' }),
    remaining_usdc: Type.Number({ description: 'The same.' }),
    pct_used: Type.Number(),
    calls: Type.Integer(),
    backpack_id: Nullable(
      Type.String({
        description: 'The Backpack it was started in; keys bound to that one may work on it.',
      }),
    ),
    started_at: Instant,
    created_at: Type.String({ format: 'date-time', description: 'The same.' }),
    ended_at: Nullable(Instant),
  },
  { $id: 'Task' },
)

const Which = Body(
  {
    task_id: Type.Optional(Id),
  },
  { description: 'Without task_id: the task of X-Task-ID, else the newest active one.' },
)

const config = { auth: 'key', scope: 'tasks' } as const
const route = (operationId: string, summary: string) => ({
  operationId,
  summary,
  tags: ['tasks'],
  response: { 200: ref(Task), ...failures },
})

const touch = (id: string) => [{ kind: 'taskSession', id }] as const

const startTask = {
  config: { ...config, bound: 'acts' } as const,
  schema: {
    ...route('startTask', 'Start a task with a budget'),
    body: Body({
      name: Type.String({ minLength: 1, maxLength: 128, pattern: LABEL }),
      budget_usdc: Amount('What the task may spend'),
    }),
  },
}

const endTask = {
  config: { ...config, bound: 'acts' } as const,
  schema: { ...route('endTask', 'Complete a task; says what it spent'), body: Which },
}

const cancelTask = {
  config: { ...config, bound: 'acts' } as const,
  schema: { ...route('cancelTask', 'Abandon a task'), body: Which },
}

const setTaskBudget = {
  config: { ...config, bound: 'acts' } as const,
  schema: {
    ...route('setTaskBudget', 'Set the new total budget of a task'),
    params: Type.Object({ id: Id }),
    body: Body({ budget_usdc: Amount('The new total') }),
  },
}

const getActiveTask = {
  config: { ...config, bound: 'reads' } as const,
  schema: route('getActiveTask', 'The newest active task'),
}

const getTask = {
  config: { ...config, bound: 'reads' } as const,
  schema: { ...route('getTask', 'A task'), params: Type.Object({ id: Id }) },
}

const listTasks = {
  config: { ...config, bound: 'reads' } as const,
  schema: {
    operationId: 'listTasks',
    summary: 'Your tasks, ended ones too, newest first',
    tags: ['tasks'],
    querystring: Type.Object({
      ...Paging,
      state: Type.Optional(Type.Enum(['active', 'completed', 'abandoned'])),
    }),
    response: {
      200: Type.Object({
        tasks: Type.Array(ref(Task)),
        count: Type.Integer(),
        next_cursor: Nullable(Type.String()),
      }),
      ...failures,
    },
  },
}

/** Budget-capped task sessions (decision 35). */
export const taskRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { actors, once, ownLists } = app.services
  app.addSchema(Task)

  app.post('/api/task/start', startTask, async (request, reply) => {
    const { name, budget_usdc: usdc } = request.body
    const task = {
      name,
      budget: fromUsdc(usdc, '/budget_usdc'),
      backpackId: backpackOf(request),
    }
    return answer(
      reply,
      once.command(asked(request), ok, async (options) => {
        // That of a bound key has been asked before.
        if (task.backpackId !== null && bindingOf(request) === null)
          await assertActive(actors, request.agentId, task.backpackId)
        return actors.ask(request.agentId, taskStart, task, options)
      }),
    )
  })

  for (const [path, command, ending] of [
    ['/api/task/end', taskEnd, endTask],
    ['/api/task/cancel', taskCancel, cancelTask],
  ] as const) {
    app.post(path, ending, async (request, reply) => {
      const taskId = request.body.task_id ?? taskHeader(request)
      const within = bindingOf(request)
      const known = taskId === null ? {} : { touch: touch(taskId) }
      return answer(
        reply,
        once.command(asked(request), ok, (options) =>
          actors.ask(request.agentId, command, { taskId, within }, { ...known, ...options }),
        ),
      )
    })
  }

  app.patch('/api/task/:id/budget', setTaskBudget, async (request, reply) => {
    const { id: taskId } = request.params
    const budget = fromUsdc(request.body.budget_usdc, '/budget_usdc')
    return answer(
      reply,
      once.command(asked(request), ok, (options) =>
        actors.ask(
          request.agentId,
          taskSetBudget,
          { taskId, budget, within: bindingOf(request) },
          { touch: touch(taskId), ...options },
        ),
      ),
    )
  })

  app.get('/api/tasks', listTasks, async (request) => {
    const { agentId, query } = request
    const filter = { state: query.state ?? null, backpackId: bindingOf(request) }
    const { rows: taskIds, next_cursor } = await page(
      query,
      CURSOR.uuid,
      (limit, before) => ownLists.tasksOf(agentId, filter, limit, before),
      (id) => id,
    )
    const tasks = await actors.ask(
      agentId,
      taskList,
      { taskIds },
      { touch: taskIds.flatMap(touch) },
    )
    return { tasks: tasks.map(present), count: tasks.length, next_cursor }
  })

  app.get('/api/task/active', getActiveTask, async (request) =>
    present(await actors.ask(request.agentId, taskActive, { within: bindingOf(request) })),
  )

  app.get('/api/task/:id', getTask, async (request) => {
    const named = { taskId: request.params.id, within: bindingOf(request) }
    const options = { touch: touch(named.taskId) }
    return present(await actors.ask(request.agentId, taskGet, named, options))
  })
}

const ok = (task: TaskView) => ({ status: 200, body: present(task) })

const leftOf = ({ budget, spent, held }: TaskView) => subtract(subtract(budget, spent), held)

const present = (task: TaskView) => ({
  task_id: task.taskId,
  id: task.taskId,
  name: task.name,
  state: task.state,
  budget_usdc: toUsdc(task.budget),
  spent_usdc: toUsdc(task.spent),
  held_usdc: toUsdc(task.held),
  remaining: toUsdc(leftOf(task)),
  remaining_usdc: toUsdc(leftOf(task)),
  pct_used: Number((task.spent * 10_000n) / task.budget) / 100,
  calls: task.calls,
  backpack_id: task.backpackId,
  started_at: instant(task.startedAt),
  created_at: instant(task.startedAt),
  ended_at: maybeInstant(task.endedAt),
})
