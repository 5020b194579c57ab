/**
 * Language by rules and counts, without weights; made by `memory/text/text-analysis.ts`. Nothing leaves the
 * process, the same text always gets the same answer, and work is done in slices, so that the event
 * loop is never held. Text beyond `MOST_CHARACTERS` (see there) is not looked at.
 */
export interface TextAnalyzer {
  /** In the order of the text, trimmed; never an empty one. */
  sentences(text: string): Promise<readonly string[]>
  /** Stems of the words that carry meaning, in their order; stop words and punctuation are left out. */
  stems(text: string): Promise<readonly string[]>
  /** The words and pairs of words that matter most, strongest first. */
  keywords(text: string, most: number): Promise<readonly TextKeyword[]>
  /** Stems and hashed trigrams in 256 numbers of length 1, or all zero for a text without words. */
  vector(text: string): Promise<LexicalVector>
  /** The cosine of two vectors, 0 to 1: alike in words, not in meaning (label it `lexical`). */
  similarity(one: LexicalVector, other: LexicalVector): number
  /**
   * The sentences that stand best for all texts (TextRank), in the order of the texts; biased to a
   * query when there is one. Sentences that repeat a chosen one are passed over.
   */
  summary(texts: readonly string[], wanted: TextSummaryOptions): Promise<readonly SummarySentence[]>
  /** What the best sentence of a text says to a thesis. */
  stance(text: string, thesis: string): Promise<Stance>
  sentiment(text: string): Promise<Sentiment>
  /**
   * Texts that are about the same, largest cluster first; a text alike to none is a cluster of its
   * own. With `most`, the nearest clusters are joined until no more than that are left.
   */
  clusters(
    texts: readonly string[],
    wanted?: TextClusterOptions,
  ): Promise<readonly SimilarTextCluster[]>
}

/** 256 numbers. */
export type LexicalVector = readonly number[]

export interface TextKeyword {
  /** As it is written in the text, in lower case. */
  readonly text: string
  /** 0 to 1; the strongest has 1. */
  readonly score: number
}

export interface TextSummaryOptions {
  readonly sentences: number
  readonly query?: string
}

export interface SummarySentence {
  readonly text: string
  /** Which of the texts it is from. */
  readonly source: number
  /** Its place among the sentences of its text. */
  readonly index: number
  /** 0 to 1; the best has 1. */
  readonly score: number
}

export interface Stance {
  /** -1 denies the thesis, 1 affirms it, 0 says nothing of it. */
  readonly value: number
  /** 0 to 1: how much of the thesis the sentence is about. */
  readonly relevance: number
  /** The sentence that was judged. */
  readonly sentence: string
  /** What decided. */
  readonly by: 'negation' | 'antonym' | 'sentiment' | 'agreement' | 'nothing'
  /** It is about the thesis, and both name numbers, but not one in common. */
  readonly otherNumbers: boolean
}

export interface Sentiment {
  /** -1 to 1. */
  readonly score: number
  readonly label: 'positive' | 'neutral' | 'negative'
}

export interface TextClusterOptions {
  /** How alike (cosine, 0 to 1) a text must be to a cluster's centre to join it. */
  readonly threshold?: number
  readonly maxClusters?: number
}

export interface SimilarTextCluster {
  /** Indices of its texts, in their order. */
  readonly members: readonly number[]
  /** The member nearest to the centre. */
  readonly centre: number
  /** What the members have in common, strongest first; at most five. */
  readonly keywords: readonly string[]
}
