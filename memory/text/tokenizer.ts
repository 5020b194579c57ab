import { setImmediate as turnOfLoop } from 'node:timers/promises'
import type { ItemSentence, ItemToken, ItsFunction, ItsHelpers, WinkMethods } from 'wink-nlp'
import { createEventLoopYieldQueue } from '../../core/concurrency/event-loop-yield-queue.ts'

/** One word or sign of a sentence. */
export interface TextToken {
  /** In lower case, contractions spelled out. */
  readonly word: string
  readonly stem: string
  readonly kind: 'word' | 'number' | 'sign'
  /** Without meaning of its own: an article, a preposition, a pronoun. */
  readonly stop: boolean
}

export interface TokenizedSentence {
  readonly text: string
  readonly tokens: readonly TextToken[]
  /** Stems of the words and numbers that carry meaning. */
  readonly stems: readonly string[]
  /** -1 to 1, by the lexicon of the model. */
  readonly sentiment: number
}

/** Continues in another turn of the event loop. */
export type YieldToEventLoop = () => Promise<void>

/** Tokenizes text. One text at a time proceeds per turn of the event loop. */
export interface TextTokenizer {
  /** The first `characters` of a text. */
  tokenize(text: string, characters?: number): Promise<readonly TokenizedSentence[]>
  readonly yieldToEventLoop: YieldToEventLoop
}

/** The length limit of any text. */
export const MAX_TOKENIZED_CHARS = 60_000
/** A slice of 5 to 10 ms. */
const BLOCK_CHARACTERS = 2_000
/** The tokenizer takes quadratic time in the length of a word. */
const MAX_TOKEN_CHARS = 48
const MAX_SENTENCE_CHARS = 600

interface Language {
  readonly nlp: WinkMethods
  readonly its: ItsHelpers
}

/**
 * The single language model instance, loaded with the first text (about 150 ms, in three turns).
 */
let loaded: Promise<Language> | undefined

async function load(): Promise<Language> {
  const { default: winkNlp } = await import('wink-nlp')
  await turnOfLoop()
  const { default: model } = await import('wink-eng-lite-web-model')
  await turnOfLoop()
  const nlp = winkNlp(model, ['sbd', 'negation', 'sentiment'])
  return { nlp, its: nlp.its }
}

export function createTextTokenizer(): TextTokenizer {
  const yieldToEventLoop = createEventLoopYieldQueue()
  return {
    yieldToEventLoop,
    async tokenize(text, characters = MAX_TOKENIZED_CHARS) {
      const language = await (loaded ??= load())
      const sentences: TokenizedSentence[] = []
      let since = BLOCK_CHARACTERS
      for (const block of blocks(text.slice(0, Math.min(characters, MAX_TOKENIZED_CHARS)))) {
        since += block.length
        if (since > BLOCK_CHARACTERS) {
          await yieldToEventLoop()
          since = block.length
        }
        sentences.push(...readBlock(language, block))
      }
      return sentences
    },
  }
}

/** Splits paragraphs and list items, limits word lengths, and cuts pieces of one slice. */
function* blocks(text: string): Generator<string> {
  let block = ''
  for (const line of lines(text)) {
    for (const word of line.split(/\s+/)) {
      if (word === '') continue
      if (block.length + word.length > BLOCK_CHARACTERS) {
        yield block
        block = ''
      }
      block += (block === '' ? '' : ' ') + word.slice(0, MAX_TOKEN_CHARS)
    }
    if (block !== '') yield block
    block = ''
  }
}

/** Splits lines; one that starts in lower case continues the line before. */
function* lines(text: string): Generator<string> {
  let line = ''
  for (const next of text.split(/[\r\n]+/)) {
    // Bounded, because the whole line is scanned again with each part.
    const goesOn = line !== '' && line.length < BLOCK_CHARACTERS && /^\s*\p{Ll}/u.test(next)
    if (goesOn && !/[.!?:;]\s*$/.test(line.slice(-8))) {
      line += ` ${next}`
      continue
    }
    if (line !== '') yield line
    line = next
  }
  if (line !== '') yield line
}

function readBlock({ nlp, its }: Language, block: string): TokenizedSentence[] {
  const sentences: TokenizedSentence[] = []
  nlp
    .readDoc(block)
    .sentences()
    .each((item: ItemSentence) => {
      const text = item.out().trim().slice(0, MAX_SENTENCE_CHARS)
      if (text === '') return
      const tokens: TextToken[] = []
      item.tokens().each((token: ItemToken) => {
        const kind = kindOf(token.out(its.type))
        const word = token.out(its.normal)
        const stem = kind === 'word' ? token.out(its.stem as unknown as ItsFunction<string>) : word
        const hollow = token.out(its.stopWordFlag) === true || word.length < 2
        tokens.push({ word, stem, kind, stop: kind === 'sign' || (kind === 'word' && hollow) })
      })
      const stems = tokens.filter(({ stop }) => !stop).map((token) => token.stem)
      const sentiment = Math.max(-1, Math.min(1, Number(item.out(its.sentiment))))
      sentences.push({ text, tokens, stems, sentiment })
    })
  return sentences
}

const kindOf = (type: string): TextToken['kind'] =>
  type === 'number' ? 'number' : WORDS.has(type) ? 'word' : 'sign'
const WORDS = new Set(['word', 'hashtag', 'mention', 'email', 'url', 'alpha', 'apos'])
