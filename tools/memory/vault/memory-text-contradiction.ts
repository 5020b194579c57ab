import { toPlainText } from '../../../core/comparable-text.ts'
import type { RuleBasedTextAnalyzer } from '../../../providers/text/text-analyzer-port.ts'

/** Finds contradictions between two texts. */

export type MemoryConflictReason = 'other_numbers' | 'opposite'

/** Minimum share of common words of two texts on the same subject. */
const MIN_COMMON_SHARE = 0.6
const MIN_SHARED_WORDS = 2
const MIN_RELEVANCE = 0.6

/** Dates and times: a different value on another day is no contradiction. */
const DATE_OR_TIME =
  /\b\d{4}-\d{2}(?:-\d{2})?\b|\b\d{1,2}:\d{2}\b|\b(?:19|20)\d{2}\b|\bq[1-4]\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}\b|\b(?:january|february|april|june|july|august|september|october|november|december)\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:last|this|next|previous) (?:night|week|month|quarter|year)\b|\b(?:yesterday|today|tomorrow)\b/gi

/** Caches parsed texts, since each is compared with many others. */
export type ParsedMemoryTextCache = Map<string, Promise<ParsedMemoryText>>

function parseCached(
  text: RuleBasedTextAnalyzer,
  content: string,
  readings: ParsedMemoryTextCache,
): Promise<ParsedMemoryText> {
  const known = readings.get(content) ?? parseMemoryText(text, content)
  readings.set(content, known)
  return known
}

/** Returns why the newer text contradicts the older one; null where it does not. */
export async function compareMemoriesForContradiction(
  text: RuleBasedTextAnalyzer,
  older: string,
  newer: string,
  readings: ParsedMemoryTextCache = new Map(),
) {
  const before = await parseCached(text, older, readings)
  const after = await parseCached(text, newer, readings)
  if (!sameSet(before.moments, after.moments)) return null
  const same = isSameSubject(before, after)
  if (!same && !(await differInOpposites(text, before, after))) return null
  if (same && otherNumbers(before.numbers, after.numbers)) return 'other_numbers' as const
  const { value, relevance, by } = await text.stance(newer, older)
  const contradicts = by === 'negation' || by === 'antonym' || (!same && by === 'sentiment')
  return value < 0 && relevance >= MIN_RELEVANCE && contradicts ? ('opposite' as const) : null
}

/** Matches numbers that may be values; in `server 2` the number is part of a name. */
const NUMBER = /(?<![\w.])\d[\d.,]*\b/g
const VALUE_PREFIX =
  /(?:\b(?:is|are|was|were|be|at|of|to|than|about|around|costs?|takes?|lasts?|has|have|holds?|allows?|every|within|after|now|only|exactly|least|most|under|over|below|above|on port)|[:=~<>])\s*[$€£]?$/i
/** Matches what follows a value: a count or a unit. */
const VALUE_SUFFIX =
  /^\s*(?:%|[A-Z]{3,5}\b|(?:times|seconds?|minutes?|hours?|days?|weeks?|months?|years?|requests?|calls?|retries|attempts|percent|points?|dollars?|euros?|[KMGT]i?B|gwei|bps|peers?|nodes?|cores?|connections?)\b)/
/** The parser drops single letters, but they are names too. */
const LETTER = /(?<![\p{L}'’])\p{L}(?![\p{L}'’])/gu
/** Removed before comparison: before a meal is not the opposite of after it. */
const SEQUENCE = /\b(?:before|after|until|since)\b/gi
/** Prepositions before what something belongs to or is in. */
const PLACE_PREFIX =
  /\b(?:of|for|in|on|at|by|from|with|to|under|per|via)\s+(?:(?:the|an?|its|our|my)\s+)?$/i

async function parseMemoryText(text: RuleBasedTextAnalyzer, written: string) {
  const content = toPlainText(written)
  const moments = new Set((content.match(DATE_OR_TIME) ?? []).map((one) => one.toLowerCase()))
  const rest = content.replace(DATE_OR_TIME, ' ')
  const numbers = [...rest.matchAll(NUMBER)].map(({ 0: found, index }) => ({
    number: found.replace(/[.,]+$/, ''),
    isValue:
      VALUE_PREFIX.test(rest.slice(0, index)) ||
      VALUE_SUFFIX.test(rest.slice(index + found.length)),
  }))
  const stems = (await text.stems(rest)).filter((stem) => !/^[\d.,]+$/.test(stem))
  const letters = (rest.match(LETTER) ?? []).filter((one) => one !== 'a' && one !== 'I')
  const labels = numbers.filter(({ isValue }) => !isValue).map(({ number }) => number)
  return {
    content: rest,
    moments,
    numbers: new Set(numbers.filter(({ isValue }) => isValue).map(({ number }) => number)),
    words: new Set([...stems, ...letters, ...labels, ...(rest.match(SEQUENCE) ?? [])]),
  }
}

type ParsedMemoryText = Awaited<ReturnType<typeof parseMemoryText>>
type Names = ReadonlySet<string>

/** Returns whether both texts name the same things. */
function isSameSubject(
  { words: one, content: before }: ParsedMemoryText,
  { words: other, content: after }: ParsedMemoryText,
) {
  const shared = [...one].filter((stem) => other.has(stem)).length
  if (shared < MIN_SHARED_WORDS || shared < Math.min(one.size, other.size)) return false
  if (shared / Math.max(one.size, other.size) < MIN_COMMON_SHARE) return false
  return !namesOtherPlace(before, one, other) && !namesOtherPlace(after, other, one)
}

/**
 * Returns whether one text names an object, purpose or place that the other lacks: `the deploy of the
 * frontend`.
 */
const namesOtherPlace = (content: string, own: Names, others: Names): boolean =>
  [...own].some((stem) => {
    if (others.has(stem)) return false
    const at = content.toLowerCase().indexOf(stem.toLowerCase())
    return at >= 0 && PLACE_PREFIX.test(content.slice(0, at))
  })

/** Returns whether the texts differ in one word only, and those words are opposites: `open` and `closed`. */
async function differInOpposites(
  text: RuleBasedTextAnalyzer,
  before: ParsedMemoryText,
  after: ParsedMemoryText,
): Promise<boolean> {
  const [gone, come] = [
    wordsMissingIn(before.words, after.words),
    wordsMissingIn(after.words, before.words),
  ]
  const shared = before.words.size - gone.length
  if (gone.length !== 1 || come.length !== 1 || shared < MIN_SHARED_WORDS) return false
  if (!sameSet(before.numbers, after.numbers)) return false
  const [one, other] = await Promise.all([
    wordOf(text, before.content, gone[0]),
    wordOf(text, after.content, come[0]),
  ])
  if (one === null || other === null) return false
  const { value, by } = await text.stance(other, one)
  return value < 0 && by === 'antonym'
}

const wordsMissingIn = (own: Names, others: Names): string[] =>
  [...own].filter((one) => !others.has(one))

/** Returns the word of a text with this stem, among those with the same prefix. */
async function wordOf(text: RuleBasedTextAnalyzer, content: string, stem = '') {
  const beginning = stem.slice(0, STEM_PREFIX_CHARS).toLowerCase()
  for (const word of new Set(content.match(/[\p{L}-]{2,}/gu) ?? []))
    if (word.toLowerCase().startsWith(beginning) && (await text.stems(word)).includes(stem))
      return word
  return null
}
/** A stem changes the end of a word, never its first letters. */
const STEM_PREFIX_CHARS = 2

const sameSet = (one: Names, other: Names): boolean =>
  one.size === other.size && [...one].every((name) => other.has(name))

/** Returns whether each text has a number that the other lacks. */
const otherNumbers = (one: Names, other: Names): boolean =>
  [...one].some((number) => !other.has(number)) && [...other].some((number) => !one.has(number))
