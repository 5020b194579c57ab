import type MiniSearch from 'minisearch'
import type { CatalogueEntry } from '../ports.ts'
import { goalOf, type Goal } from './goal.ts'
import { INTENTS } from './intents.ts'
import type { PlannedStep, Planner } from './port.ts'
import { asksOf, stepsOf, type Asked } from './steps.ts'
import { isSmallTalk } from './talk.ts'

const MOST_STEPS = 8
/** Where no need was named and a plan rests on likeness alone. */
const MOST_GUESSES = 3
/** Of the best hit: what is weaker has only a word in common. */
const STRONG = 0.45

/** Plans by words: what a goal asks for first, then a BM25 search over the catalogue. */
export function createPlanner(entries: () => readonly CatalogueEntry[], baseUrl: string): Planner {
  const search = searchOver()

  /** Tools with what they are for that a text is about, the surest first. */
  async function fitting(task: string): Promise<readonly Asked[]> {
    const all = entries()
    const bySlug = new Map(all.map((tool) => [tool.slug, tool]))
    const intents = INTENTS.map((intent) => ({ intent, hits: hitsOf(intent.pattern, task) }))
      .filter(({ hits }) => hits > 0)
      .sort((a, b) => b.hits - a.hits)
    const chosen = new Map<string, Asked>()
    const add = (intent: string, by: string, purpose: string) => {
      if (bySlug.has(by) && !chosen.has(by)) chosen.set(by, { intent, by, purpose, phase: 1 })
    }
    for (const { intent } of intents.slice(0, 2)) {
      for (const [slug, purpose] of intent.steps) add(intent.name, slug, purpose)
    }
    const found = (await search(all))(task)
    const best = found[0]?.score ?? 0
    for (const { id } of found.filter((hit) => hit.score >= STRONG * best).slice(0, 3)) {
      const tool = bySlug.get(String(id))
      if (tool !== undefined) add('tools', tool.slug, tool.use_cases[0] ?? tool.description)
    }
    return [...chosen.values()]
  }

  /** Tools that have several words of a task in common with it: one word alone tells nothing. */
  async function resembling(task: string): Promise<readonly Asked[]> {
    const all = entries()
    const bySlug = new Map(all.map((tool) => [tool.slug, tool]))
    const found = (await search(all))(task).filter(
      ({ terms, queryTerms }) => terms.filter((one) => queryTerms.includes(one)).length > 1,
    )
    return found.slice(0, MOST_GUESSES).flatMap(({ id }): Asked[] => {
      const tool = bySlug.get(String(id))
      if (tool === undefined) return []
      const purpose = tool.use_cases[0] ?? tool.description
      return [{ intent: 'tools', by: tool.slug, purpose, phase: 1 }]
    })
  }

  /** What a goal asks for; where its words name nothing, what it resembles. */
  async function asksIn(goal: Goal): Promise<readonly Asked[]> {
    if (isSmallTalk(goal.text)) return []
    const known = new Set(entries().map(({ slug }) => slug))
    const asked = asksOf(goal, known)
    return asked.length > 0 ? asked : resembling(goal.text)
  }

  return {
    async plan(task, { crews = true } = {}) {
      const read = goalOf(task)
      const goal = crews ? read : { ...read, crew: null }
      const asked = (await asksIn(goal)).slice(0, MOST_STEPS)
      const matched = asked.length > 0
      const steps = stepsOf(matched ? asked : general(goal), goal, entries(), baseUrl)
      const micros = steps.reduce((sum, step) => sum + Math.round(step.price_usdc * 1e6), 0)
      const { intent, share } = mainIntent(asked)
      return {
        task,
        detected_intent: intent,
        confidence: share,
        matched,
        steps,
        estimated_budget_usdc: micros / 1e6,
        quick_wins: quickWins(steps, entries()),
        onboard_cmd: `curl -s -X POST ${baseUrl}/api/onboard -H 'content-type: application/json' -d '{"name":"my-agent"}'`,
        note: matched ? null : isSmallTalk(task) ? TALK : UNMATCHED,
      }
    },
    async toolsFor(task, most) {
      return (await fitting(task)).slice(0, most).map(({ by }) => by)
    },
  }
}

/** What most steps serve, the first of them where they are as many, and its share of the whole. */
function mainIntent(asked: readonly Asked[]): { intent: string; share: number } {
  const counts = new Map<string, number>()
  for (const { intent } of asked) counts.set(intent, (counts.get(intent) ?? 0) + 1)
  const [first] = [...counts].sort(([, a], [, b]) => b - a)
  if (first === undefined) return { intent: 'general', share: 0 }
  const [intent, count] = first
  return { intent, share: Math.round((count / (asked.length + 1)) * 100) / 100 }
}

/** A BM25 search over the catalogue, built when it is first asked and when the catalogue has changed. */
function searchOver() {
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
    processTerm: (term) => (STOP.has(term.toLowerCase()) ? null : term.toLowerCase()),
  })
  const words = (text: readonly string[]) => text.join(' ').replace(/[_-]/g, ' ')
  search.addAll(
    tools.map((tool) => ({
      id: tool.slug,
      name: words([tool.slug, tool.name]),
      tags: words(tool.tags),
      useCases: words(tool.use_cases),
      description: tool.description,
    })),
  )
  return search
}

const STOP = new Set(
  'a an and are at be by for from i in is it me my of on or please that the this to want with you'.split(
    ' ',
  ),
)

const hitsOf = (pattern: RegExp, task: string): number =>
  new Set([...task.matchAll(new RegExp(pattern, 'gi'))].map(([word]) => word.toLowerCase())).size

const UNMATCHED =
  'No tool matches this task: these are general steps. More words about what is to be found, read, computed or sent make a better plan.'
const TALK =
  'This asks for nothing that a tool does. Say what is to be found, read, computed, remembered or sent.'

/** Three steps that help with anything, and one that says what there is. */
function general({ text }: Goal): readonly Asked[] {
  const step = (by: string, purpose: string, phase: Asked['phase']): Asked => ({
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
