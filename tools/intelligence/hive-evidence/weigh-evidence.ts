import { DAY } from '../../../core/clock.ts'
import type { Stance, RuleBasedTextAnalyzer } from '../../../providers/text/text-analyzer-port.ts'
import type { HiveEntryWithAuthorReputation } from './hive-evidence-search-port.ts'

/** An entry about a thesis, and its stance. */
export interface WeighedEvidence {
  readonly entry: HiveEntryWithAuthorReputation
  /** -1 (denies) to 1 (affirms). */
  readonly stance: number
  readonly relevance: number
  /** The sentence with the stance. */
  readonly sentence: string
  /** Confidence x reputation x recency x relevance. */
  readonly weight: number
}

export interface HiveStanceConsensus {
  readonly consensus: 'agree' | 'disagree' | 'uncertain'
  /** -1 to 1. */
  readonly score: number
  /** 0 to 1. */
  readonly confidence: number
  /** Distinct authors. */
  readonly agents: number
  /** Authors that take a side; a consensus needs two. */
  readonly sided: number
}

/** Below this an entry merely shares words with the thesis. */
const MIN_RELEVANCE = 0.34
const CONSENSUS_THRESHOLD = 0.25
const MIN_SIDED_AUTHORS = 2
/** A stance below this takes no side. */
const STANCE_THRESHOLD = 0.1
const HALF_LIFE_DAYS = 30
/** New authors and old entries keep a minimum weight. */
const MIN_REPUTATION_WEIGHT = 0.25
const MIN_RECENCY_WEIGHT = 0.1

/** Scores the stance of each entry; entries that are not about the thesis are dropped. */
export async function weighEvidence(
  entries: readonly HiveEntryWithAuthorReputation[],
  thesis: string,
  text: RuleBasedTextAnalyzer,
  now: number,
): Promise<WeighedEvidence[]> {
  const found: WeighedEvidence[] = []
  for (const entry of entries) {
    const stance = await text.stance(entry.content, thesis)
    if (stance.relevance >= MIN_RELEVANCE) found.push(toWeighedEvidence(entry, stance, now))
  }
  return found
}

function toWeighedEvidence(
  entry: HiveEntryWithAuthorReputation,
  { value, relevance, sentence }: Stance,
  now: number,
): WeighedEvidence {
  const days = Math.max(0, now - entry.at) / DAY
  const recency = Math.max(MIN_RECENCY_WEIGHT, 0.5 ** (days / HALF_LIFE_DAYS))
  const reputation = MIN_REPUTATION_WEIGHT + (1 - MIN_REPUTATION_WEIGHT) * entry.reputation
  const weight = entry.confidence * reputation * recency * relevance
  // The weight includes the relevance already.
  return { entry, stance: relevance === 0 ? 0 : value / relevance, relevance, sentence, weight }
}

export const stanceLabelOf = (stance: number) =>
  stance > STANCE_THRESHOLD ? 'agree' : stance < -STANCE_THRESHOLD ? 'disagree' : 'neutral'

export const hasConsensusQuorum = ({ sided }: Pick<HiveStanceConsensus, 'sided'>): boolean =>
  sided >= MIN_SIDED_AUTHORS

/** Returns whether several authors write about it, whether or not they take sides. */
export const hasSeveralAuthors = (witnesses: readonly WeighedEvidence[]): boolean =>
  new Set(witnesses.map(({ entry }) => entry.agentId)).size >= MIN_SIDED_AUTHORS

/**
 * Counts one vote per author: the mean stance of its entries, with the weight of its heaviest one. Confidence
 * grows with the number of votes of similar weight, so one heavy vote among many light ones counts as one.
 * With fewer than two votes that take a side the result is uncertain, with confidence 0.
 */
export function computeStanceConsensus(witnesses: readonly WeighedEvidence[]): HiveStanceConsensus {
  const authors = averageStancePerAuthor(witnesses)
  const total = authors.reduce((sum, { weight }) => sum + weight, 0)
  const squares = authors.reduce((sum, { weight }) => sum + weight ** 2, 0)
  const sided = authors.filter(({ stance }) => stanceLabelOf(stance) !== 'neutral').length
  const sum = authors.reduce((all, { stance, weight }) => all + stance * weight, 0)
  const score = total === 0 || !hasConsensusQuorum({ sided }) ? 0 : sum / total
  const effective = squares === 0 ? 0 : total ** 2 / squares
  const consensus =
    score > CONSENSUS_THRESHOLD ? 'agree' : score < -CONSENSUS_THRESHOLD ? 'disagree' : 'uncertain'
  const confidence = Math.abs(score) * (1 - Math.exp(-effective / 3))
  const agents = authors.length
  return {
    consensus,
    score: roundEvidenceScore(score),
    confidence: roundEvidenceScore(confidence),
    agents,
    sided,
  }
}

/** Returns one vote per author. */
export function averageStancePerAuthor(
  witnesses: readonly WeighedEvidence[],
): { stance: number; weight: number }[] {
  const byAuthor = new Map<string, WeighedEvidence[]>()
  for (const one of witnesses) {
    byAuthor.set(one.entry.agentId, [...(byAuthor.get(one.entry.agentId) ?? []), one])
  }
  return [...byAuthor.values()].map((own) => {
    const total = own.reduce((sum, { weight }) => sum + weight, 0)
    const stance = own.reduce((sum, one) => sum + one.stance * one.weight, 0) / (total || 1)
    return { stance, weight: Math.max(...own.map(({ weight }) => weight)) }
  })
}

export const roundEvidenceScore = (value: number): number => Math.round(value * 1e4) / 1e4
