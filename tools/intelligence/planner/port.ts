export interface PlannedStep {
  readonly step: number
  /** The slug of a tool, or null for a step that needs none of ours. */
  readonly tool: string | null
  readonly purpose: string
  readonly price_usdc: number
  readonly endpoint: string
  /** What to send there, from the words of the task; `<…>` stands for what they leave open. */
  readonly example: Record<string, unknown> | null
  /** Fields of the example that are still to be filled in. */
  readonly fill_in: readonly string[]
}

export interface TaskPlan {
  readonly task: string
  readonly detected_intent: string
  /** 0 to 1: how much of it speaks for this intent. */
  readonly confidence: number
  readonly matched: boolean
  readonly steps: readonly PlannedStep[]
  readonly estimated_budget_usdc: number
  readonly quick_wins: readonly string[]
  readonly onboard_cmd: string
  readonly note: string | null
}

export interface TaskPlanner {
  /** Without crews it names tools alone, as a crew has to. */
  plan(task: string, choice?: { readonly crews?: boolean }): Promise<TaskPlan>
  /** The slugs of the tools that serve a task best, at most so many. */
  toolsFor(task: string, most: number): Promise<readonly string[]>
}

/** What the planning routes ask. */
export interface TaskPlanningService {
  plan(task: string): Promise<TaskPlan>
  /**
   * Tools for an agent. `own` says that the agent itself asks: only then the answer rests on what it calls
   * and on its profile, else it is the same for every agent. Refuses with `agent_not_found`.
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
}
