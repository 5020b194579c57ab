import { memoryExpiresAt } from '../../../domain/memory-decay.ts'
import { DAY } from '../../../core/clock.ts'
import { LIMITS } from '../../../core/limits.ts'
import { cosineSimilarity } from '../../../domain/vector-quantization.ts'
import type { ToolContext } from '../../define-tool.ts'
import {
  compareMemoriesForContradiction,
  type MemoryConflictReason,
  type ParsedMemoryTextCache,
} from './memory-text-contradiction.ts'
import type { VaultMemory } from '../../../domain/vault-memory.ts'

/** Analyses a vault for contradictions, patterns and insights. */

export interface MemoryContradiction {
  readonly first: VaultMemory
  readonly second: VaultMemory
  readonly why: MemoryConflictReason
}

export interface VaultMemoryCluster {
  readonly keywords: readonly string[]
  readonly members: readonly VaultMemory[]
  readonly centre: VaultMemory
}

/** The analysis of a whole vault. */
export interface VaultMemoryAnalysis {
  readonly patterns: readonly VaultMemoryCluster[]
  readonly contradictions: readonly MemoryContradiction[]
  readonly gaps: readonly { readonly query: string; readonly times: number }[]
}

export interface ProposedInsight {
  /** Its subject: a contradiction, a group, an unanswered question, one memory, or a model's text. */
  readonly kind: 'clash' | 'theme' | 'gap' | 'single' | 'told'
  /** The question of a gap. */
  readonly asked?: string
  readonly content: string
  readonly sources: readonly string[]
}

/** Minimum cosine of two memories on the same subject. */
const MIN_SAME_SUBJECT_COSINE = 0.5
const MAX_COMPARED_PAIRS = 60
const MAX_LISTED = 7
const MAX_GAPS = 5
const MAX_THEMES = 3
const EXPIRY_WARNING_DAYS = 14
const MAX_EXCERPT_CHARS = 400

export async function analyzeVaultMemories(
  memories: readonly VaultMemory[],
  context: ToolContext,
): Promise<VaultMemoryAnalysis> {
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
  const gaps = await vault.unansweredQueries(caller.agentId ?? '', MAX_GAPS)
  return { patterns: patterns.slice(0, MAX_LISTED), contradictions, gaps }
}

/** Returns contradicting pairs by the rule that `vault-write` uses, most similar first. */
async function contradictionsOf(memories: readonly VaultMemory[], { text }: ToolContext) {
  const pairs = memories
    .flatMap((second, at) => memories.slice(at + 1).map((first) => ({ first, second })))
    .map((pair) => ({ ...pair, like: cosineSimilarity(pair.first.vector, pair.second.vector) }))
    .filter(({ like }) => like > MIN_SAME_SUBJECT_COSINE)
    .sort((a, b) => b.like - a.like)
  const readings: ParsedMemoryTextCache = new Map()
  const found: MemoryContradiction[] = []
  for (const { first, second } of pairs.slice(0, MAX_COMPARED_PAIRS)) {
    const why = await compareMemoriesForContradiction(text, first.content, second.content, readings)
    if (why !== null) found.push({ first, second, why })
  }
  return found.slice(0, MAX_LISTED)
}

/** Proposes up to seven new insights, most important first, each with its sources. */
export function proposeVaultMemoryInsights(
  { patterns, contradictions, gaps }: VaultMemoryAnalysis,
  memories: readonly VaultMemory[],
  isSaid: (insight: ProposedInsight) => boolean,
) {
  const clashes = contradictions.slice(0, 2).map(({ first, second, why }): ProposedInsight => ({
    kind: 'clash',
    content: `Unresolved${why === 'opposite' ? '' : ' (other numbers)'}: "${truncateMemoryText(first.content)}" against "${truncateMemoryText(second.content)}".`,
    sources: [first.id, second.id],
  }))
  const main = patterns.slice(0, MAX_THEMES)
  const themes = main.map(({ keywords, members, centre }): ProposedInsight => ({
    kind: 'theme',
    content: `Recurring (${members.length} memories: ${keywords.join(', ')}): ${truncateMemoryText(centre.content)}`,
    sources: members.map(({ id }) => id),
  }))
  const unknown = gaps.slice(0, 1).map(({ query, times }): ProposedInsight => ({
    kind: 'gap',
    asked: query,
    content: `Asked ${times === 1 ? 'once' : `${times} times`} and not known: ${query}`,
    sources: [],
  }))
  const insights = [...clashes, ...themes, ...unknown].filter((one) => !isSaid(one))
  const shown = new Set(main.map(({ centre }) => centre.id))
  const recurring = new Set(patterns.flatMap(({ members }) => members.map(({ id }) => id)))
  const alone = ({ id }: VaultMemory) => (recurring.has(id) ? 0 : 1)
  const singles = [...memories]
    .filter(({ id }) => !shown.has(id))
    .sort((a, b) => alone(b) - alone(a) || b.importance - a.importance || b.at - a.at)
    .map((one): ProposedInsight => ({
      kind: 'single',
      content: `${alone(one) === 1 ? 'Stands alone' : 'One of what recurs'}: ${truncateMemoryText(one.content)}`,
      sources: [one.id],
    }))
    .filter((one) => !isSaid(one))
  return [...insights, ...singles].slice(0, Math.max(3, insights.length))
}

/** Returns recommended actions for the findings. */
export function recommendVaultMemoryActions(
  dream: VaultMemoryAnalysis,
  memories: readonly VaultMemory[],
  now: number,
): string[] {
  const clashes = dream.contradictions.map(
    ({ first, second }) =>
      `Find out which holds, and write it with supersedes: ["${first.id}", "${second.id}"].`,
  )
  const gaps = dream.gaps.map(({ query }) => `Find out about "${query}" and write it down.`)
  const fading = memories
    .filter((memory) => {
      const expiry = memoryExpiresAt(memory)
      return memory.importance >= 0.7 && expiry !== null && expiry - now < EXPIRY_WARNING_DAYS * DAY
    })
    .map(
      ({ id }) => `Renew ${id}: it matters, and is forgotten within ${EXPIRY_WARNING_DAYS} days.`,
    )
  const full =
    memories.length < LIMITS.vaultDream ? [] : ['Compress: the vault is larger than one dream.']
  return [...clashes, ...fading, ...gaps, ...full].slice(0, 10)
}

export const summarizeVaultMemoryAnalysis = (
  { patterns, contradictions, gaps }: VaultMemoryAnalysis,
  count: number,
): string =>
  `${count} memories: ${patterns.length} recurring themes, ${contradictions.length} contradictions, ${gaps.length} questions without an answer.`

export const truncateMemoryText = (content: string): string =>
  content.length <= MAX_EXCERPT_CHARS ? content : `${content.slice(0, MAX_EXCERPT_CHARS - 1)}…`
