import type { HiveReader } from '../hive/hive-port.ts'
import type { RuleBasedTextAnalyzer } from '../text/text-analyzer-port.ts'
import { calculateExpression } from '../text/calculator.ts'

/** Answers prompts without a language model, by quoting given texts. */

export interface ExtractiveAnswer {
  readonly text: string
  readonly method: 'summary' | 'keywords' | 'arithmetic' | 'hive'
  /** Ids of the quoted Hive entries. */
  readonly sources: readonly string[]
}

export interface ExtractiveRequest {
  readonly prompt: string
  readonly system?: string | undefined
  readonly maxTokens: number
  readonly agentId: string | null
  readonly reader: string
  /** Milliseconds since the epoch. */
  readonly at: number
}

/** The model name of these answers, which quote and never generate text. */
export const EXTRACTIVE_MODEL = 'embedded/extractive-1'

const ANSWER_CHARS_PER_TOKEN = 4
const SUMMARY_PROMPT =
  /^\W*(?:please\s+|can you\s+|could you\s+)?(?:summari[sz]e|tl;?\s?dr|condense|(?:give|write)\s+(?:me\s+)?a\s+(?:short\s+|brief\s+)?summary)\b/i
const KEYWORDS_PROMPT =
  /^\W*(?:please\s+)?(?:extract|list|find|give|what are)\b[^:\n]{0,60}\bkey\s?-?(?:words?|phrases?|terms?)\b/i
const ARITHMETIC_PROMPT =
  /^\W*(?:please\s+)?(?:what(?:'s| is)|calculate|compute|evaluate|how much is|solve)?\s*(.+?)\s*[=?.]*\s*$/is
/** Minimum share of the question's stems in a sentence that answers it. */
const MIN_STEM_OVERLAP = 0.6

/** Answers from given texts; returns null where it cannot. */
export async function answerExtractively(
  { prompt, system = '', maxTokens, agentId, reader, at }: ExtractiveRequest,
  { text, hive }: { readonly text: RuleBasedTextAnalyzer; readonly hive: HiveReader },
): Promise<ExtractiveAnswer | null> {
  const given = splitTaskAndMaterial(prompt, system)
  if (given !== null && SUMMARY_PROMPT.test(given.task)) {
    const shorter = await summaryOf(given.material, maxTokens, text)
    if (shorter !== null) return { text: shorter, method: 'summary', sources: [] }
  }
  if (given !== null && KEYWORDS_PROMPT.test(given.task)) {
    const words = await text.keywords(given.material, 10)
    const list = words.map((one) => one.text).join(', ')
    if (list !== '')
      return { text: truncateToTokens(list, maxTokens), method: 'keywords', sources: [] }
  }
  const [, expression = ''] = prompt.length > 300 ? [] : (ARITHMETIC_PROMPT.exec(prompt) ?? [])
  const value = calculateExpression(expression)
  if (value !== null) return { text: value, method: 'arithmetic', sources: [] }
  if (prompt.length > 1_000) return null
  return answerFromHive(prompt, { agentId, reader, at }, text, hive)
}

/** Returns at most half of the sentences; a single sentence is its own summary. */
async function summaryOf(
  material: string,
  maxTokens: number,
  text: RuleBasedTextAnalyzer,
): Promise<string | null> {
  const all = await text.sentences(material)
  const [first] = all
  if (first === undefined) return null
  const maxSentences = Math.min(6, Math.floor(maxTokens / 40), Math.ceil(all.length / 2))
  const best = await text.summary([material], { sentences: Math.max(1, maxSentences) })
  // Without weighted words the beginning is the summary.
  return truncateToTokens(
    best.length === 0 ? first : best.map((one) => one.text).join(' '),
    maxTokens,
  )
}

/** Splits a prompt into its task and its text: at a colon or line break, else after the first sentence. */
function splitTaskAndMaterial(
  prompt: string,
  system: string,
): { task: string; material: string } | null {
  const [, task = prompt, material = ''] =
    /^([^:\n]*)(?::(?!\/\/)|\n)\s*(\S[^]*)$/.exec(prompt) ??
    /^([^.!?]*[.!?])\s+(\S[^]*)$/.exec(prompt) ??
    []
  const asked = (words: string) => SUMMARY_PROMPT.test(words) || KEYWORDS_PROMPT.test(words)
  if (asked(task)) return isText(material) ? { task, material: material.trim() } : null
  return asked(system) && isText(prompt) ? { task: system, material: prompt } : null
}

/** Returns whether the material contains words, not merely an address. */
const isText = (material: string): boolean => /\p{L}/u.test(material.replace(ADDRESS, ''))

/** The scheme is bounded; otherwise a long word would be retried from each of its letters. */
const ADDRESS = /\b[a-z][a-z0-9+.-]{0,20}:\/\/\S+/gi

/** Explains why a prompt has no extractive answer, where the reason is more than a missing model. */
export function explainNoExtractiveAnswer(prompt: string, system = ''): string | null {
  if (!SUMMARY_PROMPT.test(prompt) && !KEYWORDS_PROMPT.test(prompt)) return null
  if (splitTaskAndMaterial(prompt, system) !== null) return null
  return /:\/\//.test(prompt)
    ? 'No page is read here: read it by agent_see and send its text behind a colon.'
    : 'The text itself is missing: send it behind a colon or a line break.'
}

const truncateToTokens = (whole: string, maxTokens: number): string =>
  whole.slice(0, maxTokens * ANSWER_CHARS_PER_TOKEN)

/** Returns a sentence of a Hive entry that contains what is requested. */
async function answerFromHive(
  prompt: string,
  { agentId, reader, at }: { agentId: string | null; reader: string; at: number },
  text: RuleBasedTextAnalyzer,
  hive: HiveReader,
): Promise<ExtractiveAnswer | null> {
  const asked = new Set(await text.stems(prompt))
  if (asked.size < 2) return null
  const query = { text: prompt, namespace: null, minConfidence: 0.5, limit: 5, agentId, reader, at }
  const { entries } = await hive.search(query)
  let best: { text: string; share: number; source: string } | null = null
  for (const { id, content } of entries) {
    for (const sentence of await text.sentences(content)) {
      const stems = new Set(await text.stems(sentence))
      const share = [...asked].filter((stem) => stems.has(stem)).length / asked.size
      if (share >= MIN_STEM_OVERLAP && share > (best?.share ?? 0))
        best = { text: sentence, share, source: id }
    }
  }
  return best === null ? null : { text: best.text, method: 'hive', sources: [best.source] }
}
