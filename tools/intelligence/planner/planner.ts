import type MiniSearch from 'minisearch'
import type { CatalogueEntry } from '../../tool-ports.ts'
import { parseGoal, type ParsedGoal } from './parse-goal.ts'
import { TASK_INTENTS } from './tool-steps-by-goal-wording.ts'
import type { PlannedStep, TaskPlanner } from './planner-port.ts'
import {
  selectPlanStepsForGoal,
  fillPlannedStepInputs,
  type RequestedPlannerStep,
} from './plan-goal-steps.ts'
import { isSmallTalk } from './small-talk.ts'

/** Plans the tools for a goal. */

const MAX_STEPS = 8
/** Limit of a plan that rests on similarity alone. */
const MAX_GUESSED_STEPS = 3
/** Relative to the best hit: weaker ones merely share a word. */
const MIN_RELATIVE_SCORE = 0.45

/** Creates a planner that uses word patterns first, and then a BM25 search over the catalogue. */
export function createTaskPlanner(
  entries: () => readonly CatalogueEntry[],
  baseUrl: string,
): TaskPlanner {
  const search = createToolSearch()

  /** Returns tools about a text with their purpose, most certain first. */
  async function fitting(task: string): Promise<readonly RequestedPlannerStep[]> {
    const all = entries()
    const bySlug = new Map(all.map((tool) => [tool.slug, tool]))
    const intents = TASK_INTENTS.map((intent) => ({ intent, hits: hitsOf(intent.pattern, task) }))
      .filter(({ hits }) => hits > 0)
      .sort((a, b) => b.hits - a.hits)
    const chosen = new Map<string, RequestedPlannerStep>()
    const add = (intent: string, by: string, purpose: string) => {
      if (bySlug.has(by) && !chosen.has(by)) chosen.set(by, { intent, by, purpose, phase: 1 })
    }
    for (const { intent } of intents.slice(0, 2)) {
      for (const [slug, purpose] of intent.steps) add(intent.name, slug, purpose)
    }
    const found = (await search(all))(task)
    const best = found[0]?.score ?? 0
    for (const { id } of found
      .filter((hit) => hit.score >= MIN_RELATIVE_SCORE * best)
      .slice(0, 3)) {
      const tool = bySlug.get(String(id))
      if (tool !== undefined) add('tools', tool.slug, tool.use_cases[0] ?? tool.description)
    }
    return [...chosen.values()]
  }

  /** Returns tools that share several words with a task; one word is too weak. */
  async function resembling(task: string): Promise<readonly RequestedPlannerStep[]> {
    const all = entries()
    const bySlug = new Map(all.map((tool) => [tool.slug, tool]))
    const found = (await search(all))(task).filter(
      ({ terms, queryTerms }) => terms.filter((one) => queryTerms.includes(one)).length > 1,
    )
    return found.slice(0, MAX_GUESSED_STEPS).flatMap(({ id }): RequestedPlannerStep[] => {
      const tool = bySlug.get(String(id))
      if (tool === undefined) return []
      const purpose = tool.use_cases[0] ?? tool.description
      return [{ intent: 'tools', by: tool.slug, purpose, phase: 1 }]
    })
  }

  /**
   * Returns the steps that a goal names, else those that resemble it. Where no step surely reads or analyses, a tool
   * that an agent sells and that resembles the goal does: it is nearer than a general search.
   */
  async function asksIn(goal: ParsedGoal): Promise<readonly RequestedPlannerStep[]> {
    if (isSmallTalk(goal.text)) return []
    const all = entries()
    const requested = selectPlanStepsForGoal(goal, new Set(all.map(({ slug }) => slug)))
    if (requested.length === 0) return resembling(goal.text)
    const sure = requested.filter(({ isFallback }) => isFallback !== true)
    if (goal.crew !== null || sure.some(({ phase }) => phase <= 2)) return requested
    const sold = new Set(all.filter(({ type }) => type === 'community').map(({ slug }) => slug))
    const [nearest] = (await resembling(goal.text)).filter(({ by }) => sold.has(by))
    return nearest === undefined ? requested : [nearest, ...sure]
  }

  return {
    async plan(task, { crews = true } = {}) {
      const read = parseGoal(task)
      const goal = crews ? read : { ...read, crew: null }
      const requested = (await asksIn(goal)).slice(0, MAX_STEPS)
      const matched = requested.length > 0
      const steps = fillPlannedStepInputs(
        matched ? requested : generalSteps(goal),
        goal,
        entries(),
        baseUrl,
      )
      const micros = steps.reduce((sum, step) => sum + Math.round(step.price_usdc * 1e6), 0)
      const { intent, share } = mainIntent(requested)
      return {
        task,
        detected_intent: intent,
        confidence: share,
        matched,
        steps,
        estimated_budget_usdc: micros / 1e6,
        quick_wins: quickWins(steps, entries()),
        onboard_cmd: `curl -s -X POST ${baseUrl}/api/onboard -H 'content-type: application/json' -d '{"name":"my-agent"}'`,
        note: matched ? null : isSmallTalk(task) ? SMALL_TALK_NOTE : UNMATCHED_NOTE,
      }
    },
    async toolsFor(task, limit) {
      return (await fitting(task)).slice(0, limit).map(({ by }) => by)
    },
  }
}

/** Returns the intent of most steps (the first on a tie), and its share. */
function mainIntent(requested: readonly RequestedPlannerStep[]): { intent: string; share: number } {
  const counts = new Map<string, number>()
  for (const { intent } of requested) counts.set(intent, (counts.get(intent) ?? 0) + 1)
  const [first] = [...counts].sort(([, a], [, b]) => b - a)
  if (first === undefined) return { intent: 'general', share: 0 }
  const [intent, count] = first
  return { intent, share: Math.round((count / (requested.length + 1)) * 100) / 100 }
}

/** Creates a BM25 search over the catalogue, rebuilt when the catalogue changes. */
function createToolSearch() {
  let index: { of: string; search: MiniSearch } | undefined
  return async (tools: readonly CatalogueEntry[]) => {
    const of = tools.map(({ slug }) => slug).join(' ')
    if (index?.of !== of) index = { of, search: await indexOf(tools) }
    const { search } = index
    return (task: string) => search.search(task)
  }
}

async function indexOf(tools: readonly CatalogueEntry[]): Promise<MiniSearch> {
  const { default: Search } = await import('minisearch')
  const search = new Search({
    fields: ['name', 'tags', 'useCases', 'description'],
    searchOptions: { boost: { name: 3, tags: 2, useCases: 2 }, prefix: true, fuzzy: 0.15 },
    processTerm: (term) => (STOP_WORDS.has(term.toLowerCase()) ? null : term.toLowerCase()),
  })
  const words = (text: readonly string[]) => text.join(' ').replace(/[_-]/g, ' ')
  search.addAll(
    tools.map((tool) => ({
      id: tool.slug,
      name: words([tool.slug, tool.name]),
      tags: words(tool.tags),
      useCases: words(tool.use_cases),
      // Its own words, without what the station says before them.
      description: tool.description.replace(/^\[[^\]]*\] /, ''),
    })),
  )
  return search
}

const STOP_WORDS = new Set(
  'a an and are at be by for from i in is it me my of on or please that the this to want with you'.split(
    ' ',
  ),
)

const hitsOf = (pattern: RegExp, task: string): number =>
  new Set([...task.matchAll(new RegExp(pattern, 'gi'))].map(([word]) => word.toLowerCase())).size

const UNMATCHED_NOTE =
  'No tool matches this task: these are general steps. More words about what is to be found, read, computed or sent make a better plan.'
const SMALL_TALK_NOTE =
  'This asks for nothing that a tool does. Say what is to be found, read, computed, remembered or sent.'

/** Returns three generally useful steps, and one that lists the catalogue. */
function generalSteps({ text }: ParsedGoal): readonly RequestedPlannerStep[] {
  const step = (
    by: string,
    purpose: string,
    phase: RequestedPlannerStep['phase'],
  ): RequestedPlannerStep => ({
    intent: 'general',
    by,
    purpose,
    phase,
  })
  const list = step('/api/tools', 'Read what there is and what it costs', 1)
  if (isSmallTalk(text)) return [list]
  return [
    list,
    step('hive_read', 'See whether another agent has solved it', 3),
    step('hive_write', 'Write down what was found', 3),
  ]
}

function quickWins(steps: readonly PlannedStep[], entries: readonly CatalogueEntry[]): string[] {
  return steps.flatMap(({ tool }) => {
    const entry = entries.find(({ slug }) => slug === tool)
    if (entry === undefined || entry.access === 'paid') return []
    const perDay = entry.free_tier?.calls_per_day ?? null
    return perDay === null
      ? [`${entry.slug} costs nothing with a key.`]
      : [`${entry.slug} is free ${perDay} times a day, without a key.`]
  })
}
