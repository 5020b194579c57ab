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
  readonly state: 'active' | 'completed' | 'abandoned'
  readonly startedAt: number
  readonly endedAt: number | null
}

export const taskStart: Command<{ name: string; budget: Micros }, TaskView> = {
  name: 'task.start',
  kind: 'agent',
  apply(turn, { name, budget }) {
    if (active(turn).length >= LIMITS.activeTasks) {
      throw new ServiceError('limit_reached', { limit: LIMITS.activeTasks, of: 'active tasks' })
    }
    const taskId = turn.id()
    return view(turn.create('taskSession', taskId, { taskId, name, budget, at: turn.now }))
  },
  note: ({ budget }) => ({ budget }),
}

interface Named {
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
export const taskSetBudget: Command<{ taskId: string; budget: Micros }, TaskView> = {
  name: 'task.budget',
  kind: 'agent',
  apply(turn, { taskId, budget }) {
    known(turn, taskId)
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

export const taskActive: Command<Record<string, never>, TaskView> = {
  name: 'task.active',
  kind: 'agent',
  apply: (turn) => view(turn.peek('taskSession', chosen(turn, { taskId: null }))),
}

export const taskGet: Command<{ taskId: string }, TaskView> = {
  name: 'task.get',
  kind: 'agent',
  apply: (turn, { taskId }) => view(turn.peek('taskSession', known(turn, taskId))),
}

const active = (turn: Turn) =>
  turn.all('taskSession').filter(({ snapshot }) => snapshot.value === 'active')

function chosen(turn: Turn, { taskId }: Named): string {
  if (taskId !== null) return known(turn, taskId)
  // UUIDv7: the greatest id is the newest task.
  const newest = active(turn).reduce((best, { id }) => (id > best ? id : best), '')
  if (newest === '') throw new ServiceError('no_active_task')
  return newest
}

function known(turn: Turn, taskId: string): string {
  if (turn.has('taskSession', taskId)) return taskId
  throw new ServiceError('task_not_found', { task_id: taskId })
}

function view({ value, context }: SnapshotOf<'taskSession'>): TaskView {
  const { taskId, name, budget, spent, held, calls, startedAt, endedAt } = context
  return { taskId, name, budget, spent, held, calls, state: value, startedAt, endedAt }
}
