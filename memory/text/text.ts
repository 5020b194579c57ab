import { group } from './clusters.ts'
import { keywordsOf } from './keywords.ts'
import { createReader, MOST_CHARACTERS, type Sentence } from './reading.ts'
import { judge, sidesOf, type Sides } from './stance.ts'
import { summarise } from './summary.ts'
import { cosine, vectorOf } from './vector.ts'

const THRESHOLD = 0.12
/** One faintly coloured word is no feeling. */
const NEUTRAL = 0.2

/** The language of the house (port `text`): rules and counts, no weights, no network. */
export function createText() {
  const reader = createReader()
  let sides: Promise<Sides> | undefined

  /** Many texts share what is looked at of one. */
  async function readAll(texts: readonly string[]): Promise<(readonly Sentence[])[]> {
    const share = Math.floor(MOST_CHARACTERS / Math.max(1, texts.length))
    const all: (readonly Sentence[])[] = []
    for (const text of texts) all.push(await reader.read(text, share))
    return all
  }
  const stemsOf = async (text: string) => (await reader.read(text)).flatMap(({ stems }) => stems)
  const allStems = async (line: string) =>
    (await reader.read(line)).flatMap(({ tokens }) => tokens.map(({ stem }) => stem))

  return {
    sentences: async (text: string) => (await reader.read(text)).map((sentence) => sentence.text),
    stems: stemsOf,
    keywords: async (text: string, most: number) => keywordsOf(await reader.read(text), most),
    vector: async (text: string) => vectorOf(await reader.read(text)),
    similarity: cosine,

    async summary(texts: readonly string[], wanted: { sentences: number; query?: string }) {
      const query = wanted.query === undefined ? null : await stemsOf(wanted.query)
      return summarise(await readAll(texts), query, wanted.sentences, reader.breathe)
    },

    async stance(text: string, thesis: string) {
      sides ??= sidesOf(allStems)
      const [said, asked] = await readAll([text, thesis])
      return judge(said ?? [], asked ?? [], await sides)
    },

    async sentiment(text: string) {
      const felt = (await reader.read(text)).filter(({ sentiment }) => sentiment !== 0)
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
      { threshold = THRESHOLD, most = Infinity }: { threshold?: number; most?: number } = {},
    ) {
      const read = await readAll(texts)
      const groups = await group(
        read.map((sentences) => sentences.flatMap(({ stems }) => stems)),
        { threshold, most },
        reader.breathe,
      )
      const written = spellings(read)
      return groups.map((one) => ({
        ...one,
        keywords: one.keywords.map((stem) => written.get(stem) ?? stem),
      }))
    },
  }
}

/** How each stem is written most often. */
function spellings(texts: readonly (readonly Sentence[])[]): Map<string, string> {
  const counts = new Map<string, Map<string, number>>()
  for (const { stem, word } of texts.flat().flatMap(({ tokens }) => tokens)) {
    const words = counts.get(stem) ?? new Map<string, number>()
    counts.set(stem, words.set(word, (words.get(word) ?? 0) + 1))
  }
  const most = (words: Map<string, number>) => [...words].reduce((a, b) => (b[1] > a[1] ? b : a))[0]
  return new Map([...counts].map(([stem, words]) => [stem, most(words)]))
}
