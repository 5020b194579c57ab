import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc, type Micros } from '../../core/money.ts'
import type { Command, Turn } from '../command.ts'
import type { SnapshotOf } from '../registry.ts'

/** A budget-capped stretch of work, as its owner sees it. */
export interface TaskView {
  readonly taskId: string
  readonly name: string
  readonly budget: Micros
  readonly spent: Micros
  readonly held: Micros
  readonly calls: number
  /** The Backpack it was started in; null for none. */
  readonly backpackId: string | null
  readonly state: 'active' | 'completed' | 'abandoned'
  readonly startedAt: number
  readonly endedAt: number | null
}

/** A task to start. */
export interface NewTask {
  readonly name: string
  readonly budget: Micros
  readonly backpackId?: string | null
}

export const taskStart: Command<NewTask, TaskView> = {
  name: 'task.start',
  kind: 'agent',
  apply(turn, { name, budget, backpackId = null }) {
    if (active(turn).length >= LIMITS.activeTasks) {
      throw new ServiceError('limit_reached', { limit: LIMITS.activeTasks, of: 'active tasks' })
    }
    const taskId = turn.id()
    return view(
      turn.create('taskSession', taskId, { taskId, name, budget, backpackId, at: turn.now }),
    )
  },
  note: ({ budget }) => ({ budget }),
}

/** Whose tasks are reached: those of one Backpack for a key bound to it, else all of the agent. */
interface Reach {
  readonly within?: string | null
}

interface Named extends Reach {
  /** Null: the newest active task. */
  readonly taskId: string | null
}

export const taskEnd: Command<Named, TaskView> = {
  name: 'task.end',
  kind: 'agent',
  apply: (turn, input) =>
    view(turn.step('taskSession', chosen(turn, input), { type: 'END', at: turn.now })),
  note: ({ taskId }) => ({ taskId }),
}

export const taskCancel: Command<Named, TaskView> = {
  name: 'task.cancel',
  kind: 'agent',
  apply: (turn, input) =>
    view(turn.step('taskSession', chosen(turn, input), { type: 'CANCEL', at: turn.now })),
  note: ({ taskId }) => ({ taskId }),
}

/** Sets the total budget; never below what is spent and held. */
export const taskSetBudget: Command<Reach & { taskId: string; budget: Micros }, TaskView> = {
  name: 'task.budget',
  kind: 'agent',
  apply(turn, { taskId, budget, within }) {
    knownTask(turn, taskId, within)
    const reserved = turn.soft.sum((hold) => hold.taskId === taskId)
    try {
      return view(turn.step('taskSession', taskId, { type: 'SET_BUDGET', budget, reserved }))
    } catch (error) {
      if (error instanceof ServiceError) {
        const { spent, held } = turn.peek('taskSession', taskId).context
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

export const taskActive: Command<Reach, TaskView> = {
  name: 'task.active',
  kind: 'agent',
  apply: (turn, { within = null }) =>
    view(turn.peek('taskSession', chosen(turn, { taskId: null, within }))),
}

export const taskGet: Command<Reach & { taskId: string }, TaskView> = {
  name: 'task.get',
  kind: 'agent',
  apply: (turn, { taskId, within }) =>
    view(turn.peek('taskSession', knownTask(turn, taskId, within))),
}

/** Those of the tasks that are there, in the order they are asked for. */
export const taskList: Command<{ taskIds: readonly string[] }, TaskView[]> = {
  name: 'task.list',
  kind: 'agent',
  apply: (turn, { taskIds }) =>
    taskIds
      .filter((id) => turn.has('taskSession', id))
      .map((id) => view(turn.peek('taskSession', id))),
}

const active = (turn: Turn) =>
  turn.all('taskSession').filter(({ snapshot }) => snapshot.value === 'active')

function chosen(turn: Turn, { taskId, within = null }: Named): string {
  if (taskId !== null) return knownTask(turn, taskId, within)
  const reached = active(turn).filter(({ snapshot }) => reaches(snapshot, within))
  // UUIDv7: the greatest id is the newest task.
  const newest = reached.reduce((best, { id }) => (id > best ? id : best), '')
  if (newest === '') throw new ServiceError('no_active_task')
  return newest
}

const reaches = ({ context }: SnapshotOf<'taskSession'>, within: string | null): boolean =>
  within === null || context.backpackId === within

/** The id of a task that is there and within reach; rejects any other with `task_not_found`. */
export function knownTask(turn: Turn, taskId: string, within: string | null = null): string {
  if (turn.has('taskSession', taskId) && reaches(turn.peek('taskSession', taskId), within))
    return taskId
  throw new ServiceError('task_not_found', { task_id: taskId })
}

function view({ value, context }: SnapshotOf<'taskSession'>): TaskView {
  return { ...context, state: value }
}
