import type { InputOf, ToolCallOptions, ToolName, ToolReply } from './tool-call-types.ts'

/** Tasks: budgets that several calls share. */

export interface TaskState {
  readonly task_id: string
  readonly name: string
  readonly state: 'active' | 'completed' | 'abandoned'
  readonly budget_usdc: number
  readonly spent_usdc: number
  readonly remaining_usdc: number
  readonly calls: number
}

/** The part of a client that a task uses. */
export interface TaskClient {
  call<T extends ToolName>(
    tool: T,
    input: InputOf<T>,
    options?: ToolCallOptions,
  ): Promise<ToolReply<T>>
  request<R>(method: 'GET' | 'POST' | 'PATCH', path: string, json?: unknown): Promise<R>
}

/** A task of the station: calls that share a budget. Beyond it they throw `BudgetExceeded`. */
export class BudgetTask<Client extends TaskClient> {
  readonly id: string
  /** A client whose calls are charged to this task. */
  readonly gas: Client

  constructor(gas: Client, id: string) {
    this.id = id
    this.gas = gas
  }

  call<T extends ToolName>(
    tool: T,
    input: InputOf<T>,
    options?: ToolCallOptions,
  ): Promise<ToolReply<T>> {
    return this.gas.call(tool, input, options)
  }

  state(): Promise<TaskState> {
    return this.gas.request('GET', `/api/task/${this.id}`)
  }

  /** Sets the new total budget. */
  raiseTo(budgetUsdc: number): Promise<TaskState> {
    return this.gas.request('PATCH', `/api/task/${this.id}/budget`, { budget_usdc: budgetUsdc })
  }

  end(): Promise<TaskState> {
    return this.gas.request('POST', '/api/task/end', { task_id: this.id })
  }

  cancel(): Promise<TaskState> {
    return this.gas.request('POST', '/api/task/cancel', { task_id: this.id })
  }
}
