/** Interfaces of the planner. */

export interface PlannedStep {
  readonly step: number
  /** The slug of a tool; null for a step without one. */
  readonly tool: string | null
  readonly purpose: string
  readonly price_usdc: number
  readonly endpoint: string
  /** The request body, from the words of the task; `<…>` marks open values. */
  readonly example: Record<string, unknown> | null
  /** Fields of the example that are still open. */
  readonly fill_in: readonly string[]
}

export interface TaskPlan {
  readonly task: string
  readonly detected_intent: string
  /** Share of the steps that serve this intent, 0 to 1. */
  readonly confidence: number
  readonly matched: boolean
  readonly steps: readonly PlannedStep[]
  readonly estimated_budget_usdc: number
  readonly quick_wins: readonly string[]
  readonly onboard_cmd: string
  readonly note: string | null
}

export interface TaskPlanner {
  /** Plans a task. `crews: false` plans tools only, as crews themselves must. */
  plan(task: string, choice?: { readonly crews?: boolean }): Promise<TaskPlan>
  /** Returns the slugs of the best tools for a task. */
  toolsFor(task: string, limit: number): Promise<readonly string[]>
}

/** The service behind the planning routes. */
export interface TaskPlanningService {
  plan(task: string): Promise<TaskPlan>
  /**
   * Recommends tools for an agent. With `own`, the agent asks for itself and the result uses its calls and
   * profile; otherwise it is the same for every agent. Throws `agent_not_found`.
   */
  recommend(
    agentId: string,
    asking: { readonly own: boolean },
  ): Promise<{
    readonly used: readonly string[]
    readonly suggestions: readonly ToolRecommendation[]
  }>
}

export interface ToolRecommendation {
  readonly tool: string
  /** 0 to 1. */
  readonly confidence: number
  readonly reason: string
  readonly price_usdc: number
  /** Measured over seven days; null without calls. */
  readonly success_rate: number | null
}
