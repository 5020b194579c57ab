import { clusterTexts } from './cluster-texts.ts'
import { extractKeywords } from './extract-keywords.ts'
import { createTextTokenizer, MAX_TOKENIZED_CHARS, type TokenizedSentence } from './tokenizer.ts'
import { classifyStance, buildAntonymSides, type AntonymSidesByStem } from './classify-stance.ts'
import { summarizeTexts } from './summarize-texts.ts'
import { unitVectorSimilarity, toHashedVector } from './hashed-vector.ts'

/** Text analysis without a language model. */

const THRESHOLD = 0.12
/** Below this, sentiment counts as neutral. */
const NEUTRAL = 0.2

/** The built-in text analysis (port `text`): rules and counts, no weights, no network. */
export function createRuleBasedTextAnalysis() {
  const reader = createTextTokenizer()
  let sides: Promise<AntonymSidesByStem> | undefined

  /** Many texts share the length limit of one. */
  async function readAll(texts: readonly string[]): Promise<(readonly TokenizedSentence[])[]> {
    const share = Math.floor(MAX_TOKENIZED_CHARS / Math.max(1, texts.length))
    const all: (readonly TokenizedSentence[])[] = []
    for (const text of texts) all.push(await reader.tokenize(text, share))
    return all
  }
  const stemsOf = async (text: string) =>
    (await reader.tokenize(text)).flatMap(({ stems }) => stems)
  const allStems = async (line: string) =>
    (await reader.tokenize(line)).flatMap(({ tokens }) => tokens.map(({ stem }) => stem))

  return {
    sentences: async (text: string) =>
      (await reader.tokenize(text)).map((sentence) => sentence.text),
    stems: stemsOf,
    keywords: async (text: string, most: number) =>
      extractKeywords(await reader.tokenize(text), most),
    vector: async (text: string) => toHashedVector(await reader.tokenize(text)),
    similarity: unitVectorSimilarity,

    async summary(texts: readonly string[], wanted: { sentences: number; query?: string }) {
      const query = wanted.query === undefined ? null : await stemsOf(wanted.query)
      return summarizeTexts(await readAll(texts), query, wanted.sentences, reader.yieldToEventLoop)
    },

    async stance(text: string, thesis: string) {
      sides ??= buildAntonymSides(allStems)
      const [said, asked] = await readAll([text, thesis])
      return classifyStance(said ?? [], asked ?? [], await sides)
    },

    async sentiment(text: string) {
      const felt = (await reader.tokenize(text)).filter(({ sentiment }) => sentiment !== 0)
      const sum = felt.reduce((all, { sentiment }) => all + sentiment, 0)
      const score = felt.length === 0 ? 0 : Math.round((sum / felt.length) * 1e4) / 1e4
      const label =
        score > NEUTRAL
          ? ('positive' as const)
          : score < -NEUTRAL
            ? ('negative' as const)
            : ('neutral' as const)
      return { score, label }
    },

    async clusters(
      texts: readonly string[],
      {
        threshold = THRESHOLD,
        maxClusters = Infinity,
      }: { threshold?: number; maxClusters?: number } = {},
    ) {
      const read = await readAll(texts)
      const groups = await clusterTexts(
        read.map((sentences) => sentences.flatMap(({ stems }) => stems)),
        { threshold, maxClusters },
        reader.yieldToEventLoop,
      )
      const written = spellings(read)
      return groups.map((one) => ({
        ...one,
        keywords: one.keywords.map((stem) => written.get(stem) ?? stem),
      }))
    },
  }
}

/** The most frequent spelling of each stem. */
function spellings(texts: readonly (readonly TokenizedSentence[])[]): Map<string, string> {
  const counts = new Map<string, Map<string, number>>()
  for (const { stem, word } of texts.flat().flatMap(({ tokens }) => tokens)) {
    const words = counts.get(stem) ?? new Map<string, number>()
    counts.set(stem, words.set(word, (words.get(word) ?? 0) + 1))
  }
  const most = (words: Map<string, number>) => [...words].reduce((a, b) => (b[1] > a[1] ? b : a))[0]
  return new Map([...counts].map(([stem, words]) => [stem, most(words)]))
}
