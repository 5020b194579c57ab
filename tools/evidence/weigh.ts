import { DAY } from '../../core/clock.ts'
import type { Stance, Text } from '../text/port.ts'
import type { Testimony } from './port.ts'

/** An entry that speaks of the thesis, and what it says to it. */
export interface Witness {
  readonly entry: Testimony
  /** -1 to 1. */
  readonly stance: number
  readonly relevance: number
  /** The sentence that says it. */
  readonly sentence: string
  /** Confidence x reputation x recency x relevance. */
  readonly weight: number
}

export interface Verdict {
  readonly consensus: 'agree' | 'disagree' | 'uncertain'
  /** -1 to 1. */
  readonly score: number
  /** 0 to 1. */
  readonly confidence: number
  /** Distinct authors. */
  readonly agents: number
  /** Those that take a side; of fewer than two there is no consensus. */
  readonly sided: number
}

/** Below it an entry has only words in common with the thesis. */
const RELEVANT = 0.34
const DECIDED = 0.25
const FEWEST_SIDED = 2
/** A stance below it takes no side. */
const SIDED = 0.1
const HALF_LIFE_DAYS = 30
/** Newcomers and old entries count for little, not for nothing. */
const LEAST_REPUTATION = 0.25
const LEAST_RECENCY = 0.1

/** Reads what each entry says; those that are not about the thesis are left out. */
export async function witnesses(
  entries: readonly Testimony[],
  thesis: string,
  text: Text,
  now: number,
): Promise<Witness[]> {
  const found: Witness[] = []
  for (const entry of entries) {
    const stance = await text.stance(entry.content, thesis)
    if (stance.relevance >= RELEVANT) found.push(witness(entry, stance, now))
  }
  return found
}

function witness(entry: Testimony, { value, relevance, sentence }: Stance, now: number): Witness {
  const days = Math.max(0, now - entry.at) / DAY
  const recency = Math.max(LEAST_RECENCY, 0.5 ** (days / HALF_LIFE_DAYS))
  const reputation = LEAST_REPUTATION + (1 - LEAST_REPUTATION) * entry.reputation
  const weight = entry.confidence * reputation * recency * relevance
  // The weight knows the relevance already.
  return { entry, stance: relevance === 0 ? 0 : value / relevance, relevance, sentence, weight }
}

export const sideOf = (stance: number) =>
  stance > SIDED ? 'agree' : stance < -SIDED ? 'disagree' : 'neutral'

export const isEnough = ({ sided }: Pick<Verdict, 'sided'>): boolean => sided >= FEWEST_SIDED

/** Several authors speak of it; whether they take sides is another question. */
export const areSeveral = (witnesses: readonly Witness[]): boolean =>
  new Set(witnesses.map(({ entry }) => entry.agentId)).size >= FEWEST_SIDED

/**
 * One voice an author, however often it speaks: the mean of its entries with the weight of its
 * weightiest. Confidence grows with the number of voices of like weight, so that one loud voice among
 * many faint ones counts as one. Without two voices that take a side it is uncertain, by 0.
 */
export function verdictOf(witnesses: readonly Witness[]): Verdict {
  const voices = voicesOf(witnesses)
  const total = voices.reduce((sum, { weight }) => sum + weight, 0)
  const squares = voices.reduce((sum, { weight }) => sum + weight ** 2, 0)
  const sided = voices.filter(({ stance }) => sideOf(stance) !== 'neutral').length
  const sum = voices.reduce((all, { stance, weight }) => all + stance * weight, 0)
  const score = total === 0 || !isEnough({ sided }) ? 0 : sum / total
  const effective = squares === 0 ? 0 : total ** 2 / squares
  const consensus = score > DECIDED ? 'agree' : score < -DECIDED ? 'disagree' : 'uncertain'
  const confidence = Math.abs(score) * (1 - Math.exp(-effective / 3))
  const agents = voices.length
  return { consensus, score: round(score), confidence: round(confidence), agents, sided }
}

/** The voices of the authors of some entries. */
export function voicesOf(witnesses: readonly Witness[]): { stance: number; weight: number }[] {
  const byAuthor = new Map<string, Witness[]>()
  for (const one of witnesses) {
    byAuthor.set(one.entry.agentId, [...(byAuthor.get(one.entry.agentId) ?? []), one])
  }
  return [...byAuthor.values()].map((own) => {
    const total = own.reduce((sum, { weight }) => sum + weight, 0)
    const stance = own.reduce((sum, one) => sum + one.stance * one.weight, 0) / (total || 1)
    return { stance, weight: Math.max(...own.map(({ weight }) => weight)) }
  })
}

export const round = (value: number): number => Math.round(value * 1e4) / 1e4
