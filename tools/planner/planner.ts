import type MiniSearch from 'minisearch'
import type { CatalogueEntry } from '../ports.ts'
import { INTENTS } from './intents.ts'
import type { PlannedStep, Planner } from './port.ts'

const MOST_STEPS = 5
/** Of the best hit: what is weaker has only a word in common. */
const STRONG = 0.45

/** Plans by words: patterns of intents first, then a BM25 search over the catalogue. */
export function createPlanner(entries: () => readonly CatalogueEntry[], baseUrl: string): Planner {
  const search = searchOver()

  /** Intent and tools with what they are for, the surest first. */
  async function read(task: string) {
    const all = entries()
    const bySlug = new Map(all.map((tool) => [tool.slug, tool]))
    const intents = INTENTS.map((intent) => ({ intent, hits: hitsOf(intent.pattern, task) }))
      .filter(({ hits }) => hits > 0)
      .sort((a, b) => b.hits - a.hits)
    const purposes = new Map<string, string>()
    for (const { intent } of intents.slice(0, 2)) {
      for (const [slug, purpose] of intent.steps)
        if (bySlug.has(slug) && !purposes.has(slug)) purposes.set(slug, purpose)
    }
    const found = (await search(all))(task)
    const best = found[0]?.score ?? 0
    for (const { id } of found.filter((hit) => hit.score >= STRONG * best).slice(0, 3)) {
      if (!purposes.has(String(id)))
        purposes.set(String(id), bySlug.get(String(id))?.use_cases[0] ?? '')
    }
    const tools = [...purposes].flatMap(([slug, purpose]) => {
      const tool = bySlug.get(slug)
      return tool === undefined ? [] : [{ tool, purpose }]
    })
    const total = intents.reduce((sum, { hits }) => sum + hits, 0)
    const [first] = intents
    return {
      name: first?.intent.name ?? null,
      confidence: first === undefined ? 0 : Math.round((first.hits / (total + 1)) * 100) / 100,
      tools,
    }
  }

  return {
    async plan(task) {
      const { name, confidence, tools } = await read(task)
      const few = tools.slice(0, MOST_STEPS)
      const steps =
        few.length === 0
          ? generic(baseUrl, entries())
          : few.map((one, at) => stepOf(one, at + 1, baseUrl))
      const micros = steps.reduce((sum, step) => sum + Math.round(step.price_usdc * 1e6), 0)
      return {
        task,
        detected_intent: name ?? (few.length === 0 ? 'general' : 'tools'),
        confidence,
        matched: few.length > 0,
        steps,
        estimated_budget_usdc: micros / 1e6,
        quick_wins: quickWins(steps, entries()),
        onboard_cmd: `curl -s -X POST ${baseUrl}/api/onboard -H 'content-type: application/json' -d '{"name":"my-agent"}'`,
        note:
          few.length > 0
            ? null
            : 'No tool matches this task: these are general steps. More words about what is to be found, read, computed or sent make a better plan.',
      }
    },
    async toolsFor(task, most) {
      return (await read(task)).tools.slice(0, most).map(({ tool }) => tool.slug)
    },
  }
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

function stepOf(
  { tool, purpose }: { tool: CatalogueEntry; purpose: string },
  step: number,
  baseUrl: string,
): PlannedStep {
  return {
    step,
    tool: tool.slug,
    purpose: purpose === '' ? tool.description : purpose,
    price_usdc: tool.price_usdc,
    endpoint: `${baseUrl}/api/refuel`,
    example: tool.example_calls[0] ?? null,
  }
}

/** Three steps that help with anything. */
function generic(baseUrl: string, entries: readonly CatalogueEntry[]): PlannedStep[] {
  const look = (slug: string) => entries.find((tool) => tool.slug === slug)
  const list = {
    step: 1,
    tool: null,
    purpose: 'Read what there is and what it costs',
    price_usdc: 0,
    endpoint: `${baseUrl}/api/tools`,
    example: null,
  }
  const rest = (
    [
      ['hive_read', 'See whether another agent has solved it'],
      ['hive_write', 'Write down what was found'],
    ] as const
  ).flatMap(([slug, purpose]) => {
    const tool = look(slug)
    return tool === undefined ? [] : [{ tool, purpose }]
  })
  return [list, ...rest.map((one, at) => stepOf(one, at + 2, baseUrl))]
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
