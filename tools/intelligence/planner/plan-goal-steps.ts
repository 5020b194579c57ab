import { SCHEDULE_RUN_FEE } from '../../../domain/pricing.ts'
import { toUsdc } from '../../../core/money.ts'
import type { CatalogueEntry } from '../../tool-ports.ts'
import {
  CREW_ROUTE,
  crewRequestTemplateForGoal,
  crewPriceUsdc,
  type CrewNamedInGoal,
} from './crew-request-for-goal.ts'
import { parseGoal, type ParsedGoal } from './parse-goal.ts'
import { PLANNED_STEP_INPUT_BUILDERS, listPlaceholderFields } from './planned-step-inputs.ts'
import { GOAL_TOOL_PATTERNS, type GoalToolPattern } from './goal-tool-patterns.ts'
import type { PlannedStep } from './planner-port.ts'

/** A requested step, without its pattern. */
export type RequestedPlannerStep = Pick<
  GoalToolPattern,
  'intent' | 'by' | 'purpose' | 'phase' | 'isFallback'
>

const SCHEDULE_ROUTE = '/api/task/schedule'

/** Selects the tools and routes that a goal asks for, in execution order. */
export function selectPlanStepsForGoal(
  goal: ParsedGoal,
  tools: ReadonlySet<string>,
): readonly RequestedPlannerStep[] {
  if (goal.crew !== null) return withCrew(goal.crew, tools)
  const here = GOAL_TOOL_PATTERNS.filter(({ by }) => by.startsWith('/') || tools.has(by))
  const sure = here.filter((need) => need.isFallback !== true && need.matchesGoal(goal))
  const served = (by: string) => sure.some(({ phase, unless }) => phase <= 2 && unless !== by)
  const rest = here.filter(
    (need) => need.isFallback === true && !served(need.by) && need.matchesGoal(goal),
  )
  const [guess] = rest
  const requested = [...sure, ...(guess === undefined ? [] : [guess])].sort(
    (a, b) => a.phase - b.phase,
  )
  const has = (by: string) => requested.some((one) => one.by === by)
  const kept = requested.filter(
    ({ by, unless }, at) =>
      (unless === undefined || !has(unless)) && requested.findIndex((one) => one.by === by) === at,
  )
  return kept.filter(({ by }) => by !== SCHEDULE_ROUTE || findRepeatedStep(kept) !== undefined)
}

/** A crew reads and analyses by itself; the other steps come after it. */
function withCrew(
  { kind, remainingGoal }: CrewNamedInGoal,
  tools: ReadonlySet<string>,
): readonly RequestedPlannerStep[] {
  const purpose = `Have the ${kind.replace('_', ' ')} crew do it`
  const crew: RequestedPlannerStep = { intent: 'crew', by: CREW_ROUTE, purpose, phase: 2 }
  const others = { ...parseGoal(remainingGoal), crew: null }
  const after = GOAL_TOOL_PATTERNS.filter(
    ({ by, phase }) => phase > 2 && (by.startsWith('/') || tools.has(by)),
  )
  return [
    crew,
    ...after.filter((need) => need.matchesGoal(others)).sort((a, b) => a.phase - b.phase),
  ]
}

/** Returns whether later steps can use its answer. */
const producesAnswer = ({ by, phase }: RequestedPlannerStep): boolean =>
  by === CREW_ROUTE || (phase <= 2 && !by.startsWith('/'))

/** Returns the step that a schedule would repeat. */
const findRepeatedStep = (
  requested: readonly RequestedPlannerStep[],
): RequestedPlannerStep | undefined =>
  requested.some(({ by }) => by === 'hive_watch') ? undefined : requested.find(producesAnswer)

/** Fills the input of each step from the words of the goal. */
export function fillPlannedStepInputs(
  requested: readonly RequestedPlannerStep[],
  goal: ParsedGoal,
  entries: readonly CatalogueEntry[],
  baseUrl: string,
): readonly PlannedStep[] {
  const bySlug = new Map(entries.map((entry) => [entry.slug, entry]))
  const here = requested.filter(({ by }) => by.startsWith('/') || bySlug.has(by))
  return here.map((one, at): PlannedStep => {
    const tool = bySlug.get(one.by)
    const before = answersBefore(here, at)
    const example =
      tool === undefined
        ? routeExample(one.by, goal, before, { asked: here, bySlug })
        : toolExample(tool, goal, before)
    return {
      step: at + 1,
      tool: tool?.slug ?? null,
      purpose: one.purpose,
      price_usdc: tool?.price_usdc ?? routePrice(one.by, goal),
      endpoint: `${baseUrl}${tool === undefined ? one.by : '/api/refuel'}`,
      example,
      fill_in: example === null ? [] : listPlaceholderFields(example),
    }
  })
}

function routePrice(path: string, { crew }: ParsedGoal): number {
  if (path === CREW_ROUTE && crew !== null) return crewPriceUsdc(crew.kind)
  return path === SCHEDULE_ROUTE ? toUsdc(SCHEDULE_RUN_FEE) : 0
}

/** Returns `<what step 1 answered>`; null where no earlier step reads or analyses. */
function answersBefore(requested: readonly RequestedPlannerStep[], at: number): string | null {
  const phase = requested[at]?.phase ?? 1
  const earlier = requested.flatMap((one, index) =>
    index < at && one.phase <= Math.min(phase, 2) && producesAnswer(one) ? [index + 1] : [],
  )
  if (earlier.length === 0) return null
  return earlier.length === 1
    ? `<what step ${earlier[0]} answered>`
    : `<what steps ${earlier.slice(0, -1).join(', ')} and ${earlier.at(-1)} answered>`
}

function toolExample(
  { slug, input_schema: schema }: CatalogueEntry,
  goal: ParsedGoal,
  before: string | null,
): Record<string, unknown> {
  const buildInput = PLANNED_STEP_INPUT_BUILDERS[slug]
  if (buildInput !== undefined) return { tool: slug, ...buildInput(goal, before) }
  // Of other tools the required fields stay open: the catalogue's example is not the goal.
  const { required = [] } = schema as { required?: readonly string[] }
  return { tool: slug, ...Object.fromEntries(required.map((name) => [name, `<${name}>`])) }
}

interface ScheduleExampleContext {
  readonly asked: readonly RequestedPlannerStep[]
  readonly bySlug: ReadonlyMap<string, CatalogueEntry>
}

function routeExample(
  path: string,
  goal: ParsedGoal,
  before: string | null,
  around: ScheduleExampleContext,
): Record<string, unknown> | null {
  if (path === '/api/agent/ping-owner') return { message: goal.quoted ?? before ?? goal.topic }
  if (path === '/api/agent/send') {
    const [, amount = '0'] =
      /\b(\d+(?:\.\d+)?) ?(?:usdc|credits?|dollars)\b/i.exec(goal.words) ?? []
    const [to = '<id of the agent>'] = goal.agents
    return { to_agent_id: to, amount_usdc: Number(amount) }
  }
  if (path === CREW_ROUTE) return crewFields(goal)
  return path === SCHEDULE_ROUTE ? scheduleExample(goal, around) : null
}

function crewFields({ crew, urls }: ParsedGoal): Record<string, unknown> | null {
  if (crew === null) return null
  const [clause = crew.remainingGoal] = parseGoal(crew.remainingGoal).clauses
  return crewRequestTemplateForGoal(crew.kind, clause, urls)
}

function scheduleExample(
  goal: ParsedGoal,
  { asked: requested, bySlug }: ScheduleExampleContext,
): Record<string, unknown> | null {
  const again = findRepeatedStep(requested)?.by ?? ''
  const interval = intervalIn(goal.words)
  if (again === CREW_ROUTE && goal.crew !== null) {
    const params = crewFields(goal)
    return { interval, tool: 'crew', params, budget_usdc: budgetFor(crewPriceUsdc(goal.crew.kind)) }
  }
  const tool = bySlug.get(again)
  if (tool === undefined) return null
  const { tool: slug, ...params } = toolExample(tool, goal, null)
  const dearest = tool.free_tier?.overage_price_usdc ?? tool.price_usdc
  return { interval, tool: slug, params, budget_usdc: budgetFor(dearest) }
}

const budgetFor = (price: number): number =>
  Math.round((price + toUsdc(SCHEDULE_RUN_FEE)) * 1e6) / 1e6

/** Intervals of the scheduler below a week, in minutes. */
const INTERVALS = [
  ['5m', 5],
  ['30m', 30],
  ['1h', 60],
  ['6h', 360],
  ['12h', 720],
  ['1d', 1_440],
] as const
const WORDS_OF_INTERVALS: readonly (readonly [RegExp, minutes: number])[] = [
  [/\bhourly\b|\b(?:every|each) hour\b/i, 60],
  [/\bweekly\b|\b(?:every|each) (?:week|month|\w+day)\b|\bmonthly\b/i, 10_080],
  [/\b(?:daily|nightly)\b|\b(?:every|each) (?:day|morning|evening|night)\b/i, 1_440],
]
const UNITS: Readonly<Record<string, number>> = { minute: 1, hour: 60, day: 1_440, week: 10_080 }

/** Returns the shortest interval of the scheduler that is at least the requested one; an hour by default. */
function intervalIn(words: string): string {
  const [, count, unit = ''] = /\bevery (\d+) (minute|hour|day|week)s?\b/i.exec(words) ?? []
  const [, saidMinutes = 60] = WORDS_OF_INTERVALS.find(([pattern]) => pattern.test(words)) ?? []
  const minutes =
    count === undefined ? saidMinutes : Number(count) * (UNITS[unit.toLowerCase()] ?? 1)
  return INTERVALS.find(([, length]) => length >= minutes)?.[0] ?? '1w'
}
