import { expiryOf } from '../../core/decay.ts'
import { DAY } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { likeness } from '../../core/packed.ts'
import type { ToolContext } from '../define.ts'
import { conflictOf, type Conflict, type Readings } from './contradiction.ts'
import type { Memory } from './port.ts'

export interface Contradiction {
  readonly first: Memory
  readonly second: Memory
  readonly why: Conflict
}

export interface Pattern {
  readonly keywords: readonly string[]
  readonly members: readonly Memory[]
  readonly centre: Memory
}

/** What a vault says when all of it is looked at. */
export interface Dream {
  readonly patterns: readonly Pattern[]
  readonly contradictions: readonly Contradiction[]
  readonly gaps: readonly { readonly query: string; readonly times: number }[]
}

export interface Insight {
  /** What it is about: two memories, a group, a question, one memory; or what a model says. */
  readonly kind: 'clash' | 'theme' | 'gap' | 'single' | 'told'
  /** The question of a gap. */
  readonly asked?: string
  readonly content: string
  readonly sources: readonly string[]
}

/** Two memories are about the same from this cosine on. */
const SAME = 0.5
const MOST_PAIRS = 60
const MOST_TOLD = 7
const GAPS = 5
const THEMES = 3
const SOON_DAYS = 14
const SHORTENED = 400

export async function dreamOf(memories: readonly Memory[], context: ToolContext): Promise<Dream> {
  const { text, vault, caller } = context
  const [first] = memories
  if (first === undefined) return { patterns: [], contradictions: [], gaps: [] }
  const clusters = await text.clusters(memories.map(({ content }) => content))
  const patterns = clusters
    .filter(({ members }) => members.length > 1)
    .map(({ members, centre, keywords }) => ({
      keywords,
      members: members.flatMap((at) => memories[at] ?? []),
      centre: memories[centre] ?? first,
    }))
  const contradictions = await contradictionsOf(memories, context)
  const gaps = await vault.misses(caller.agentId ?? '', GAPS)
  return { patterns: patterns.slice(0, MOST_TOLD), contradictions, gaps }
}

/** Pairs that cannot both hold, by the rule that writing goes by too; the most alike first. */
async function contradictionsOf(memories: readonly Memory[], { text }: ToolContext) {
  const pairs = memories
    .flatMap((second, at) => memories.slice(at + 1).map((first) => ({ first, second })))
    .map((pair) => ({ ...pair, like: likeness(pair.first.vector, pair.second.vector) }))
    .filter(({ like }) => like > SAME)
    .sort((a, b) => b.like - a.like)
  const readings: Readings = new Map()
  const found: Contradiction[] = []
  for (const { first, second } of pairs.slice(0, MOST_PAIRS)) {
    const why = await conflictOf(text, first.content, second.content, readings)
    if (why !== null) found.push({ first, second, why })
  }
  return found.slice(0, MOST_TOLD)
}

/** Up to seven that are not said yet, what weighs most first; each says what it is made of. */
export function insightsOf(
  { patterns, contradictions, gaps }: Dream,
  memories: readonly Memory[],
  isSaid: (insight: Insight) => boolean,
) {
  const clashes = contradictions.slice(0, 2).map(({ first, second, why }): Insight => ({
    kind: 'clash',
    content: `Unresolved${why === 'opposite' ? '' : ' (other numbers)'}: "${short(first.content)}" against "${short(second.content)}".`,
    sources: [first.id, second.id],
  }))
  const main = patterns.slice(0, THEMES)
  const themes = main.map(({ keywords, members, centre }): Insight => ({
    kind: 'theme',
    content: `Recurring (${members.length} memories: ${keywords.join(', ')}): ${short(centre.content)}`,
    sources: members.map(({ id }) => id),
  }))
  const unknown = gaps.slice(0, 1).map(({ query, times }): Insight => ({
    kind: 'gap',
    asked: query,
    content: `Asked ${times === 1 ? 'once' : `${times} times`} and not known: ${query}`,
    sources: [],
  }))
  const told = [...clashes, ...themes, ...unknown].filter((one) => !isSaid(one))
  const shown = new Set(main.map(({ centre }) => centre.id))
  const recurring = new Set(patterns.flatMap(({ members }) => members.map(({ id }) => id)))
  const alone = ({ id }: Memory) => (recurring.has(id) ? 0 : 1)
  const singles = [...memories]
    .filter(({ id }) => !shown.has(id))
    .sort((a, b) => alone(b) - alone(a) || b.importance - a.importance || b.at - a.at)
    .map((one): Insight => ({
      kind: 'single',
      content: `${alone(one) === 1 ? 'Stands alone' : 'One of what recurs'}: ${short(one.content)}`,
      sources: [one.id],
    }))
    .filter((one) => !isSaid(one))
  return [...told, ...singles].slice(0, Math.max(3, told.length))
}

/** What the agent had better do, from what was found. */
export function actionsOf(dream: Dream, memories: readonly Memory[], now: number): string[] {
  const clashes = dream.contradictions.map(
    ({ first, second }) =>
      `Find out which holds, and write it with supersedes: ["${first.id}", "${second.id}"].`,
  )
  const gaps = dream.gaps.map(({ query }) => `Find out about "${query}" and write it down.`)
  const fading = memories
    .filter((memory) => {
      const expiry = expiryOf(memory)
      return memory.importance >= 0.7 && expiry !== null && expiry - now < SOON_DAYS * DAY
    })
    .map(({ id }) => `Renew ${id}: it matters, and is forgotten within ${SOON_DAYS} days.`)
  const full =
    memories.length < LIMITS.vaultDream ? [] : ['Compress: the vault is larger than one dream.']
  return [...clashes, ...fading, ...gaps, ...full].slice(0, 10)
}

export const sentenceOf = ({ patterns, contradictions, gaps }: Dream, count: number): string =>
  `${count} memories: ${patterns.length} recurring themes, ${contradictions.length} contradictions, ${gaps.length} questions without an answer.`

export const short = (content: string): string =>
  content.length <= SHORTENED ? content : `${content.slice(0, SHORTENED - 1)}…`
