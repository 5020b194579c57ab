import {
  ANTONYM_AXES,
  NON_NEGATING_IDIOMS,
  NEGATION_WORDS,
  CLAUSE_SEPARATORS,
} from './stance-lexicon.ts'
import type { TokenizedSentence, TextToken } from './tokenizer.ts'

/** Classifies whether a text agrees with a thesis. */

export interface StanceClassification {
  readonly value: number
  readonly relevance: number
  readonly sentence: string
  readonly by: 'negation' | 'antonym' | 'sentiment' | 'agreement' | 'nothing'
  readonly otherNumbers: boolean
}

/** The axes of antonyms of a stem, and its side on each. */
export type AntonymSidesByStem = ReadonlyMap<string, readonly { axis: number; side: 1 | -1 }[]>

/** A parsed statement: its subject, its sides and its negation. */
interface ParsedStatement {
  readonly about: ReadonlySet<string>
  readonly sides: ReadonlyMap<number, number>
  readonly negated: boolean
  readonly numbers: ReadonlySet<string>
  readonly sentiment: number
}

/** From this overlap on, a sentence is about the thesis. */
const MIN_STANCE_RELEVANCE = 0.34
const NEARLY_ALL = 0.8
const MIN_SENTIMENT = 0.15
/** Weight of agreement that is only assumed, without a sign of the contrary. */
const DEFAULT_AGREEMENT_WEIGHT = 0.6

/** The axes by the stems of their words; `stemsOf` stems a line of words. */
export async function buildAntonymSides(stemsOf: (line: string) => Promise<readonly string[]>) {
  const sides = new Map<string, { axis: number; side: 1 | -1 }[]>()
  for (const [axis, [plus, minus]] of ANTONYM_AXES.entries()) {
    for (const [words, side] of [[plus, 1] as const, [minus, -1] as const]) {
      for (const stem of new Set(await stemsOf(words))) {
        const known = sides.get(stem) ?? []
        sides.set(stem, known)
        known.push({ axis, side })
      }
    }
  }
  return sides
}

/**
 * Classifies the best sentence of a text against a thesis. A clause is as relevant as the share of
 * the thesis it names. Antonyms and the number of negations decide agreement, and sentiment only if
 * there is neither.
 */
export function classifyStance(
  text: readonly TokenizedSentence[],
  thesis: readonly TokenizedSentence[],
  sides: AntonymSidesByStem,
): StanceClassification {
  const asked = parseStatement(
    thesis.flatMap(({ tokens }) => tokens),
    thesis.reduce((sum, { sentiment }) => sum + sentiment, 0),
    sides,
    null,
  )
  let best: StanceClassification = { ...NO_STANCE, sentence: text[0]?.text ?? '' }
  for (const sentence of text) {
    const judged = compare(sentence, asked, sides)
    if (weight(judged) > weight(best) + 1e-9) best = judged
  }
  return best
}

const NO_STANCE: StanceClassification = {
  value: 0,
  relevance: 0,
  sentence: '',
  by: 'nothing',
  otherNumbers: false,
}
const weight = ({ relevance, value }: StanceClassification): number =>
  relevance + Math.abs(value) / 2

function compare(
  sentence: TokenizedSentence,
  asked: ParsedStatement,
  sides: AntonymSidesByStem,
): StanceClassification {
  const said = parseStatement(sentence.tokens, sentence.sentiment, sides, asked)
  const relevance = round(coverage(said, asked))
  const nothing = { ...NO_STANCE, relevance, sentence: sentence.text }
  // A question states nothing.
  if (relevance < MIN_STANCE_RELEVANCE || sentence.text.endsWith('?')) return nothing
  const shared = [...asked.numbers].some((number) => said.numbers.has(number))
  const otherNumbers = asked.numbers.size > 0 && said.numbers.size > 0 && !shared
  const turned = said.negated !== asked.negated
  const opposed = oppositionOf(said, asked)
  const doubtful = otherNumbers || (asked.sides.size > 0 && relevance < NEARLY_ALL)
  const verdict = (
    sign: number,
    by: StanceClassification['by'],
    share = 1,
  ): StanceClassification => ({
    value: round(sign * relevance * share),
    relevance,
    sentence: sentence.text,
    by,
    otherNumbers,
  })
  if (opposed !== null) {
    if (opposed) return verdict(-1, turned ? 'negation' : 'antonym')
    return otherNumbers ? { ...nothing, otherNumbers } : verdict(1, 'agreement')
  }
  // A sentence without a side, or with other numbers, does not answer a thesis that has them.
  if (doubtful) return { ...nothing, otherNumbers }
  if (turned) return verdict(-1, 'negation')
  if (Math.abs(asked.sentiment) >= MIN_SENTIMENT && Math.abs(said.sentiment) >= MIN_SENTIMENT) {
    return verdict(
      Math.sign(asked.sentiment * said.sentiment),
      'sentiment',
      DEFAULT_AGREEMENT_WEIGHT,
    )
  }
  return verdict(1, 'agreement', DEFAULT_AGREEMENT_WEIGHT)
}

/** Whether they are on opposite sides; null without a common axis. */
function oppositionOf(said: ParsedStatement, asked: ParsedStatement): boolean | null {
  let sum = 0
  for (const [axis, side] of asked.sides) sum += side * Math.sign(said.sides.get(axis) ?? 0)
  return sum === 0 ? null : sum < 0
}

/** The share of the thesis's subject that the sentence names, antonyms included. */
function coverage(said: ParsedStatement, asked: ParsedStatement): number {
  if (asked.about.size === 0) return 0
  let named = 0
  for (const stem of asked.about) if (said.about.has(stem)) named += 1
  return named / asked.about.size
}

/**
 * Parses a statement by clauses: a negation reverses the sides of its clause. Against a thesis,
 * only clauses about it count, and a stem on one of its axes counts as the thesis's own.
 */
function parseStatement(
  tokens: readonly TextToken[],
  sentiment: number,
  sides: AntonymSidesByStem,
  asked: ParsedStatement | null,
): ParsedStatement {
  const about = new Set<string>()
  const found = new Map<number, number>()
  const numbers = new Set<string>()
  let negations = 0
  for (const clause of clauses(tokens)) {
    const names = clause.filter((token) => isAbout(token, asked, sides))
    if (asked !== null && names.length === 0) continue
    const turns = negationsIn(clause)
    negations += turns
    const sense = turns % 2 === 0 ? 1 : -1
    for (const token of names) {
      if (token.kind === 'number') numbers.add(token.word)
      const stands = sides.get(token.stem) ?? []
      for (const { axis, side } of stands) found.set(axis, (found.get(axis) ?? 0) + side * sense)
      if (stands.length === 0) about.add(token.stem)
      for (const { axis } of stands) about.add(`axis ${axis}`)
    }
  }
  return { about, sides: found, negated: negations % 2 === 1, numbers, sentiment }
}

function isAbout(
  token: TextToken,
  asked: ParsedStatement | null,
  sides: AntonymSidesByStem,
): boolean {
  if (NEGATION_WORDS.has(token.word) || token.kind === 'sign') return false
  const stands = sides.get(token.stem) ?? []
  if (asked === null) return !token.stop || stands.length > 0
  if (token.kind === 'number') return true
  return asked.about.has(token.stem) || stands.some(({ axis }) => asked.sides.has(axis))
}

function negationsIn(clause: readonly TextToken[]): number {
  const words = clause.map(({ word }) => word)
  let count = 0
  for (let at = 0; at < words.length; at += 1) {
    const idiom = NON_NEGATING_IDIOMS.find((phrase) =>
      phrase.every((word, next) => words[at + next] === word),
    )
    if (idiom !== undefined) at += idiom.length - 1
    else if (NEGATION_WORDS.has(words[at] ?? '')) count += 1
  }
  return count
}

function clauses(tokens: readonly TextToken[]): TextToken[][] {
  const all: TextToken[][] = [[]]
  for (const token of tokens) {
    if (CLAUSE_SEPARATORS.has(token.word)) all.push([])
    else all.at(-1)?.push(token)
  }
  return all
}

const round = (value: number): number => Math.round(value * 1e4) / 1e4
