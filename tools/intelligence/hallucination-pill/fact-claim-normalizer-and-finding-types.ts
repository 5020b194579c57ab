import { toComparableText, toPlainText } from '../../../core/comparable-text.ts'
import type { ReadableChainName } from '../../../providers/chain-data/chain-data-port.ts'
import type { ToolPorts } from '../../tool-ports.ts'

/** What a checker may read. */
export interface FactCheckContext extends Pick<ToolPorts, 'chain' | 'prices' | 'catalogue'> {
  readonly now: Date
  readonly signal: AbortSignal
  /** The chain of claims that name none. */
  readonly home: ReadableChainName
}

export type ClaimValue = string | number | boolean

/** The finding of a checker that understands a claim. */
export interface FactCheckFinding {
  /** Null when the claim is understood and cannot be verified; never a contradiction. */
  readonly holds: boolean | null
  /** False where it is compared with a tolerance, or changes by the minute. */
  readonly exact: boolean
  readonly observed: ClaimValue | null
  readonly source: string
  readonly context: string
}

/** Returns null for a claim of another kind. It matches the whole claim or nothing. */
export type FactClaimCheckFunction = (
  claim: string,
  world: FactCheckContext,
) => FactCheckFinding | null | Promise<FactCheckFinding | null>

/** A claim in normalised spelling, and whether it is negated. */
export interface NormalizedClaim {
  readonly text: string
  readonly negated: boolean
}

const FILLERS =
  /^(?:(?:today,|now,|(?:currently|right now|as of (?:today|now)|in fact|actually|of course|note that|it is true that|it is a fact that|the fact is that|i (?:think|believe)(?: that)?|did you know that),?) )+/i
const CONTRACTIONS: readonly (readonly [RegExp, string])[] = [
  [/\b(is|are|was|were|does|do|did|has|have)n't\b/gi, '$1 not'],
  [/\bcan(?:not|'t)\b/gi, 'can not'],
  [/\bit's\b/gi, 'it is'],
]
/** Negations whose meaning is not resolved. */
const OTHER_DENIALS = /\b(?:never|no|none|neither|nor|without|no longer|can not|hardly|not)\b/i

/** Returns null for a claim with an unresolved negation, which cannot be checked. */
export function normalizeClaim(claim: string): NormalizedClaim | null {
  let text = toPlainText(claim)
    .replace(/[\u2018\u2019]/g, "'")
    .replace(/[\u201c\u201d"`]/g, '')
    .replace(/\u2212/g, '-')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/[.!?\s]+$/, '')
    .replace(FILLERS, '')
  for (const [short, long] of CONTRACTIONS) text = text.replace(short, long)
  const positive = text
    .replace(/\b(is|are|was|were|has) not\b/i, '$1')
    .replace(/\b(?:does|do) not have\b/i, 'has')
    .replace(/\b(?:does|do) not equal\b/i, 'equals')
    .replace(/\bdoes not (\w+)\b/i, '$1s')
  if (OTHER_DENIALS.test(positive)) return null
  return { text: positive, negated: positive !== text }
}

export const exactFinding = (
  holds: boolean,
  observed: ClaimValue,
  source: string,
  context: string,
): FactCheckFinding => ({ holds, exact: true, observed, source, context })

export const approximateFinding = (
  holds: boolean,
  observed: ClaimValue,
  source: string,
  context: string,
): FactCheckFinding => ({ holds, exact: false, observed, source, context })

export const unverifiableFinding = (source: string, context: string): FactCheckFinding => ({
  holds: null,
  exact: false,
  observed: null,
  source,
  context,
})

/** Normalises a name: case, spaces and punctuation are ignored. */
export const normalizeName = (text: string): string =>
  toComparableText(text)
    .toLowerCase()
    .replace(/^(?:the|a|an) /, '')
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()
