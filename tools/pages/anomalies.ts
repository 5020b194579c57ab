import type { Amount } from './amounts.ts'
import { characterAnomalies, visible } from './characters.ts'
import { encodedAnomalies } from './encoded.ts'
import { hiddenTexts, type Hidden } from './hidden.ts'
import { phrasesIn } from './phrases.ts'
import type { Anomaly, PagePrice } from './port.ts'
import { priceAnomalies, targetAnomalies } from './targets.ts'
import { innerPages, toldTexts, valuesIn, type Told } from './told.ts'
import { elementsOf, type PageElement, type PageTree } from './tree.ts'

const MOST_EACH = 10
const MOST = 60
const LONGEST_EXCERPT = 240
const MOST_ATTRIBUTES = 200_000
const MOST_COMMENTS = 200_000

export interface Seen {
  readonly tree: PageTree
  readonly hidden: Hidden
  /** What is shown, all of it. */
  readonly text: string
  /** What is told besides. */
  readonly told: Told
  readonly page: URL
  /** What its addresses are relative to. */
  readonly base: URL
  /** Prices for machines, and those that people read. */
  readonly declared: readonly PagePrice[]
  readonly shown: readonly Amount[]
}

/**
 * What on a page may be meant to mislead a machine that reads it, by rules: signs, not proof, and
 * nothing found is no promise.
 */
export function anomaliesOf(seen: Seen): Anomaly[] {
  const kept: Anomaly[] = []
  const counts = new Map<string, number>()
  for (const anomaly of lookedFor(seen)) {
    const excerpt = visible(anomaly.excerpt, LONGEST_EXCERPT)
    const { type } = anomaly
    const count = counts.get(type) ?? 0
    const told = kept.some((one) => one.type === type && one.excerpt.includes(excerpt))
    if (told || count === MOST_EACH) continue
    counts.set(type, count + 1)
    kept.push({ ...anomaly, excerpt })
    if (kept.length === MOST) break
  }
  return kept.sort((one, other) => RANK[other.severity] - RANK[one.severity])
}

const RANK = { low: 0, medium: 1, high: 2 }

function* lookedFor(seen: Seen): Generator<Anomaly> {
  const { tree, hidden, text, told, page, base, declared, shown } = seen
  const values = valuesIn(tree.root)
  const besides = joined(toldTexts(told))
  const filled = joined(values.shown)
  const unseen = joined([...hiddenTexts(hidden), ...innerPages(tree.root)])
  const carried = joined(values.unseen)
  const said = joined(attributeTexts(tree.root))
  const remarks = joined(bounded(tree.comments, MOST_COMMENTS))
  for (const all of [unseen, carried, said]) yield* instructions(all, 'hidden_instruction')
  yield* instructions(remarks, 'comment_instruction')
  for (const all of [text, besides, filled]) yield* shownPhrases(all)
  yield* targetAnomalies(tree.root, page, base)
  yield* priceAnomalies(declared, shown)
  for (const all of [text, besides, filled, unseen, carried, said]) yield* characterAnomalies(all)
  // Fields hold encoded states everywhere.
  for (const all of [text, besides, unseen, remarks]) yield* encodedAnomalies(all)
}

/** With a dot between them, so that no sentence goes from one to another. */
const joined = (texts: readonly string[]): string => [...new Set(texts)].join('\n.\n')

/** Where nobody reads it, whatever tells somebody to do something is odd. */
function* instructions(
  text: string,
  type: 'hidden_instruction' | 'comment_instruction',
): Generator<Anomaly> {
  for (const phrase of phrasesIn(text)) {
    const severity = phrase.demand === 'imperative' ? 'medium' : 'high'
    yield { type, severity, excerpt: phrase.excerpt }
  }
}

/** Where everybody reads it, it may be an article about just this. */
function* shownPhrases(text: string): Generator<Anomaly> {
  for (const phrase of phrasesIn(text)) {
    if (phrase.demand === 'imperative') continue
    yield { type: phrase.demand, severity: 'medium', excerpt: phrase.excerpt }
  }
}

const READ_ALOUD = ['alt', 'title', 'aria-label', 'aria-description', 'placeholder', 'content']

/** What attributes say to whoever does not look at the page. */
function attributeTexts(root: PageElement): string[] {
  const texts: string[] = []
  let left = MOST_ATTRIBUTES
  for (const { attributes } of elementsOf(root)) {
    if (attributes.size === 0) continue
    for (const name of READ_ALOUD) {
      const text = attributes.get(name)
      if (text === undefined || text.length < 20 || left <= 0) continue
      texts.push(text.slice(0, left))
      left -= text.length
    }
  }
  return texts
}

function bounded(texts: readonly string[], most: number): string[] {
  const kept: string[] = []
  let left = most
  for (const text of texts) {
    if (left <= 0) break
    kept.push(text.slice(0, left))
    left -= text.length
  }
  return kept
}
