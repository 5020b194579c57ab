import type { Text } from '../text/port.ts'

export type Conflict = 'other_numbers' | 'opposite'

/** Two texts about the same have this much of their words in common. */
const COMMON = 0.6
const LEAST_WORDS = 2
const RELEVANT = 0.6

/** Days and times: what was so on another day is no contradiction. */
const MOMENT =
  /\b\d{4}-\d{2}(?:-\d{2})?\b|\b\d{1,2}:\d{2}\b|\b(?:19|20)\d{2}\b|\bq[1-4]\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b/gi

/** Why the newer of two texts cannot stand beside the older one; null where both can. */
export async function conflictOf(text: Text, older: string, newer: string) {
  const [before, after] = [await readingOf(text, older), await readingOf(text, newer)]
  if (!sameMatter(before.words, after.words) || !sameSet(before.moments, after.moments)) return null
  if (otherNumbers(before.numbers, after.numbers)) return 'other_numbers' as const
  const { value, relevance, by } = await text.stance(newer, older)
  const opposed = value < 0 && relevance >= RELEVANT && (by === 'negation' || by === 'antonym')
  return opposed ? ('opposite' as const) : null
}

/** Numbers that are said of something; others are part of a name, as in `server 2`. */
const NUMBER = /(?<![\w.])\d[\d.,]*\b/g
const SAID_OF =
  /(?:\b(?:is|are|was|were|be|at|of|to|than|about|around|costs?|takes?|lasts?|has|have|allows?|every|within|after|now|only|exactly|least|most|under|over|below|above)|[:=~<>])\s*[$€£]?$/i
/** The reader leaves single letters out, but they are names too. */
const LETTER = /(?<![\p{L}'’])\p{L}(?![\p{L}'’])/gu

async function readingOf(text: Text, content: string) {
  const moments = new Set((content.match(MOMENT) ?? []).map((one) => one.toLowerCase()))
  const rest = content.replace(MOMENT, ' ')
  const numbers = [...rest.matchAll(NUMBER)].map((match) => ({
    number: match[0].replace(/[.,]+$/, ''),
    isValue: SAID_OF.test(rest.slice(0, match.index)),
  }))
  const stems = (await text.stems(rest)).filter((stem) => !/^[\d.,]+$/.test(stem))
  const letters = (rest.match(LETTER) ?? []).filter((one) => one !== 'a' && one !== 'I')
  const labels = numbers.filter(({ isValue }) => !isValue).map(({ number }) => number)
  return {
    moments,
    numbers: new Set(numbers.filter(({ isValue }) => isValue).map(({ number }) => number)),
    words: new Set([...stems, ...letters, ...labels]),
  }
}

type Names = ReadonlySet<string>

/** Whatever one of them names, the other names too: so neither speaks of another thing. */
function sameMatter(one: Names, other: Names): boolean {
  const shared = [...one].filter((stem) => other.has(stem)).length
  if (shared < LEAST_WORDS || shared < Math.min(one.size, other.size)) return false
  return shared / Math.max(one.size, other.size) >= COMMON
}

const sameSet = (one: Names, other: Names): boolean =>
  one.size === other.size && [...one].every((name) => other.has(name))

/** Each has a number that the other lacks. */
const otherNumbers = (one: Names, other: Names): boolean =>
  [...one].some((number) => !other.has(number)) && [...other].some((number) => !one.has(number))
