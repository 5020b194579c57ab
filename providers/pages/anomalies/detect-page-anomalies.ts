import type { PageMoneyAmount } from '../content/parse-money-amounts-in-page-text.ts'
import { detectInvisibleCharacters, escapeInvisibleCharacters } from './invisible-characters.ts'
import { detectEncodedPayloads } from './detect-encoded-payloads.ts'
import { collectHiddenTexts, type HiddenElements } from '../html/hidden-elements.ts'
import { detectPromptInjectionPhrases } from './prompt-injection-phrases.ts'
import type { PageAnomaly, PagePrice } from '../page-parser-port.ts'
import { detectPriceMismatches, detectDeceptiveLinks } from './detect-deceptive-links-and-prices.ts'
import {
  renderSrcdocTexts,
  titleHeadingLinkAndFormTexts,
  extractPageFormFieldValues,
  type PageOutline,
} from './page-outline-field-and-srcdoc-texts.ts'
import { descendantElements, type HtmlElement, type HtmlTree } from '../html/html-parser.ts'

/** Runs all anomaly detectors on a page. */

const MAX_ANOMALIES_PER_TYPE = 10
const MAX_PAGE_ANOMALIES = 60
const MAX_EXCERPT_CHARS = 240
const MAX_ATTRIBUTE_TEXT_CHARS = 200_000
const MAX_COMMENT_TEXT_CHARS = 200_000

export interface AnomalyDetectionInput {
  readonly tree: HtmlTree
  readonly hidden: HiddenElements
  /** All visible text. */
  readonly text: string
  /** The title, headings, links and forms. */
  readonly outline: PageOutline
  readonly page: URL
  /** Base of its relative addresses. */
  readonly base: URL
  /** Prices in metadata, and prices in the text. */
  readonly declaredPrices: readonly PagePrice[]
  readonly shownAmounts: readonly PageMoneyAmount[]
}

/**
 * Detects by rules what may mislead a machine that reads the page. Findings are no proof, and their absence
 * is no guarantee.
 */
export function detectPageAnomalies(seen: AnomalyDetectionInput): PageAnomaly[] {
  const kept: PageAnomaly[] = []
  const counts = new Map<string, number>()
  for (const anomaly of detectAllAnomalies(seen)) {
    const excerpt = escapeInvisibleCharacters(anomaly.excerpt, MAX_EXCERPT_CHARS)
    const { type } = anomaly
    const count = counts.get(type) ?? 0
    const known = kept.some((one) => one.type === type && one.excerpt.includes(excerpt))
    if (known || count === MAX_ANOMALIES_PER_TYPE) continue
    counts.set(type, count + 1)
    kept.push({ ...anomaly, excerpt })
    if (kept.length === MAX_PAGE_ANOMALIES) break
  }
  return kept.sort((one, other) => SEVERITY_RANK[other.severity] - SEVERITY_RANK[one.severity])
}

const SEVERITY_RANK = { low: 0, medium: 1, high: 2 }

function* detectAllAnomalies(seen: AnomalyDetectionInput): Generator<PageAnomaly> {
  const { tree, hidden, text, outline, page, base, declaredPrices, shownAmounts } = seen
  const values = extractPageFormFieldValues(tree.root)
  const besides = joinTexts(titleHeadingLinkAndFormTexts(outline))
  const filled = joinTexts(values.visible)
  const unseen = joinTexts([...collectHiddenTexts(hidden), ...renderSrcdocTexts(tree.root)])
  const carried = joinTexts(values.hidden)
  const said = joinTexts(collectAttributeTexts(tree.root))
  const remarks = joinTexts(limitTotalChars(tree.comments, MAX_COMMENT_TEXT_CHARS))
  for (const all of [unseen, carried, said])
    yield* detectHiddenInstructions(all, 'hidden_instruction')
  yield* detectHiddenInstructions(remarks, 'comment_instruction')
  for (const all of [text, besides, filled]) yield* detectVisiblePhrases(all)
  yield* detectDeceptiveLinks(tree.root, page, base)
  yield* detectPriceMismatches(declaredPrices, shownAmounts)
  for (const all of [text, besides, filled, unseen, carried, said])
    yield* detectInvisibleCharacters(all)
  // Field values are skipped: they often hold encoded state.
  for (const all of [text, besides, unseen, remarks]) yield* detectEncodedPayloads(all)
}

/** Joins texts with a dot, so that no sentence spans two of them. */
const joinTexts = (texts: readonly string[]): string => [...new Set(texts)].join('\n.\n')

/** In hidden text any instruction is suspicious. */
function* detectHiddenInstructions(
  text: string,
  type: 'hidden_instruction' | 'comment_instruction',
): Generator<PageAnomaly> {
  for (const phrase of detectPromptInjectionPhrases(text)) {
    const severity = phrase.intent === 'imperative' ? 'medium' : 'high'
    yield { type, severity, excerpt: phrase.excerpt }
  }
}

/** Visible phrases may belong to an article on the subject. */
function* detectVisiblePhrases(text: string): Generator<PageAnomaly> {
  for (const phrase of detectPromptInjectionPhrases(text)) {
    if (phrase.intent === 'imperative') continue
    yield { type: phrase.intent, severity: 'medium', excerpt: phrase.excerpt }
  }
}

const TEXT_ATTRIBUTES = ['alt', 'title', 'aria-label', 'aria-description', 'placeholder', 'content']

/** Returns texts in attributes, which are not visible. */
function collectAttributeTexts(root: HtmlElement): string[] {
  const texts: string[] = []
  let left = MAX_ATTRIBUTE_TEXT_CHARS
  for (const { attributes } of descendantElements(root)) {
    if (attributes.size === 0) continue
    for (const name of TEXT_ATTRIBUTES) {
      const text = attributes.get(name)
      if (text === undefined || text.length < 20 || left <= 0) continue
      texts.push(text.slice(0, left))
      left -= text.length
    }
  }
  return texts
}

function limitTotalChars(texts: readonly string[], maxChars: number): string[] {
  const kept: string[] = []
  let left = maxChars
  for (const text of texts) {
    if (left <= 0) break
    kept.push(text.slice(0, left))
    left -= text.length
  }
  return kept
}
