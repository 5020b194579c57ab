import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc, type Micros } from '../../core/money.ts'
import type { AggregateCommand, CommandContext } from '../aggregate-command-types.ts'
import type { ActorSnapshot } from '../machine-registry.ts'

/** A task with a budget, as its owner sees it. */
export interface TaskView {
  readonly taskId: string
  readonly name: string
  readonly budget: Micros
  readonly spent: Micros
  readonly held: Micros
  readonly calls: number
  /** The Backpack it was started in; null without one. */
  readonly backpackId: string | null
  readonly state: 'active' | 'completed' | 'abandoned'
  readonly startedAt: number
  readonly endedAt: number | null
}

export interface NewTask {
  readonly name: string
  readonly budget: Micros
  readonly backpackId?: string | null
}

export const startTaskCommand: AggregateCommand<NewTask, TaskView> = {
  name: 'task.start',
  kind: 'agent',
  apply(ctx, { name, budget, backpackId = null }) {
    if (activeTasks(ctx).length >= LIMITS.activeTasks) {
      throw new ServiceError('limit_reached', { limit: LIMITS.activeTasks, of: 'active tasks' })
    }
    const taskId = ctx.newId()
    return toTaskView(
      ctx.create('taskSession', taskId, { taskId, name, budget, backpackId, at: ctx.now }),
    )
  },
  note: ({ budget }) => ({ budget }),
}

/** A key bound to a Backpack reaches that Backpack's tasks only; null reaches all. */
interface TaskScope {
  readonly within?: string | null
}

interface TaskInputById extends TaskScope {
  /** Null selects the newest active task. */
  readonly taskId: string | null
}

export const endTaskAggregateCommand: AggregateCommand<TaskInputById, TaskView> = {
  name: 'task.end',
  kind: 'agent',
  apply: (ctx, input) =>
    toTaskView(ctx.send('taskSession', resolveTaskId(ctx, input), { type: 'END', at: ctx.now })),
  note: ({ taskId }) => ({ taskId }),
}

export const cancelTaskCommand: AggregateCommand<TaskInputById, TaskView> = {
  name: 'task.cancel',
  kind: 'agent',
  apply: (ctx, input) =>
    toTaskView(ctx.send('taskSession', resolveTaskId(ctx, input), { type: 'CANCEL', at: ctx.now })),
  note: ({ taskId }) => ({ taskId }),
}

/** Sets the total budget. Throws `budget_below_spent` below the spent and held amount. */
export const setTaskBudgetCommand: AggregateCommand<
  TaskScope & { taskId: string; budget: Micros },
  TaskView
> = {
  name: 'task.budget',
  kind: 'agent',
  apply(ctx, { taskId, budget, within }) {
    requireTaskInScope(ctx, taskId, within)
    const reserved = ctx.inMemoryHolds.sum((hold) => hold.taskId === taskId)
    try {
      return toTaskView(ctx.send('taskSession', taskId, { type: 'SET_BUDGET', budget, reserved }))
    } catch (error) {
      if (error instanceof ServiceError) {
        const { spent, held } = ctx.snapshotOf('taskSession', taskId).context
        Object.assign(error.details, {
          task_id: taskId,
          spent_usdc: toUsdc(spent),
          held_usdc: toUsdc((held + reserved) as Micros),
        })
      }
      throw error
    }
  },
  note: ({ taskId, budget }) => ({ taskId, budget }),
}

export const getActiveTaskCommand: AggregateCommand<TaskScope, TaskView> = {
  name: 'task.active',
  kind: 'agent',
  apply: (ctx, { within = null }) =>
    toTaskView(ctx.snapshotOf('taskSession', resolveTaskId(ctx, { taskId: null, within }))),
}

export const getTaskCommand: AggregateCommand<TaskScope & { taskId: string }, TaskView> = {
  name: 'task.get',
  kind: 'agent',
  apply: (ctx, { taskId, within }) =>
    toTaskView(ctx.snapshotOf('taskSession', requireTaskInScope(ctx, taskId, within))),
}

/** Returns the tasks that exist, in the order of the ids. */
export const listTasksAggregateCommand: AggregateCommand<
  { taskIds: readonly string[] },
  TaskView[]
> = {
  name: 'task.list',
  kind: 'agent',
  apply: (ctx, { taskIds }) =>
    taskIds
      .filter((id) => ctx.has('taskSession', id))
      .map((id) => toTaskView(ctx.snapshotOf('taskSession', id))),
}

const activeTasks = (ctx: CommandContext) =>
  ctx.all('taskSession').filter(({ snapshot }) => snapshot.value === 'active')

function resolveTaskId(ctx: CommandContext, { taskId, within = null }: TaskInputById): string {
  if (taskId !== null) return requireTaskInScope(ctx, taskId, within)
  const reached = activeTasks(ctx).filter(({ snapshot }) => isInScope(snapshot, within))
  // Ids are UUIDv7: the greatest id is the newest task.
  const newest = reached.reduce((best, { id }) => (id > best ? id : best), '')
  if (newest === '') throw new ServiceError('no_active_task')
  return newest
}

const isInScope = ({ context }: ActorSnapshot<'taskSession'>, within: string | null): boolean =>
  within === null || context.backpackId === within

/** Returns the id of a task within scope. Throws `task_not_found` for any other. */
export function requireTaskInScope(
  ctx: CommandContext,
  taskId: string,
  within: string | null = null,
): string {
  if (ctx.has('taskSession', taskId) && isInScope(ctx.snapshotOf('taskSession', taskId), within))
    return taskId
  throw new ServiceError('task_not_found', { task_id: taskId })
}

function toTaskView({ value, context }: ActorSnapshot<'taskSession'>): TaskView {
  return { ...context, state: value }
}
