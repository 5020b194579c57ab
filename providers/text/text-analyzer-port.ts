/**
 * Rule-based text analysis without models; implemented by `createTextAnalyzer`. Nothing leaves the process,
 * and results are deterministic. Work is done in slices, so that the event loop is never blocked. Text beyond
 * a limit is ignored.
 */
export interface RuleBasedTextAnalyzer {
  /** Returns trimmed, non-empty sentences in order. */
  sentences(text: string): Promise<readonly string[]>
  /** Returns stems of meaningful words in order, without stop words and punctuation. */
  stems(text: string): Promise<readonly string[]>
  /** Returns the most important words and word pairs, strongest first. */
  keywords(text: string, limit: number): Promise<readonly TextKeyword[]>
  /** Returns stems and hashed trigrams as a unit vector of 256 numbers; zeros for a text without words. */
  vector(text: string): Promise<LexicalVector>
  /** Returns the cosine of two vectors, 0 to 1: similarity of words, not of meaning (label it `lexical`). */
  similarity(one: LexicalVector, other: LexicalVector): number
  /**
   * Returns the most representative sentences of all texts (TextRank) in text order, biased to a query if
   * given. Sentences that repeat a selected one are skipped.
   */
  summary(texts: readonly string[], wanted: TextSummaryOptions): Promise<readonly SummarySentence[]>
  /** Returns the stance of a text's best sentence towards a thesis. */
  stance(text: string, thesis: string): Promise<Stance>
  sentiment(text: string): Promise<Sentiment>
  /**
   * Clusters texts by subject, largest first; a text similar to none is its own cluster. With `most`, the
   * nearest clusters are merged down to that number.
   */
  clusters(
    texts: readonly string[],
    wanted?: TextClusterOptions,
  ): Promise<readonly SimilarTextCluster[]>
}

/** 256 numbers. */
export type LexicalVector = readonly number[]

export interface TextKeyword {
  /** As written in the text, in lower case. */
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
  /** Index of its text. */
  readonly source: number
  /** Index among the sentences of its text. */
  readonly index: number
  /** 0 to 1; the best has 1. */
  readonly score: number
}

export interface Stance {
  /** -1 denies the thesis, 1 affirms it, 0 is neutral. */
  readonly value: number
  /** 0 to 1: the share of the thesis that the sentence covers. */
  readonly relevance: number
  /** The judged sentence. */
  readonly sentence: string
  /** The rule that decided. */
  readonly by: 'negation' | 'antonym' | 'sentiment' | 'agreement' | 'nothing'
  /** It is about the thesis, and both name numbers, but none in common. */
  readonly otherNumbers: boolean
}

export interface Sentiment {
  /** -1 to 1. */
  readonly score: number
  readonly label: 'positive' | 'neutral' | 'negative'
}

export interface TextClusterOptions {
  /** Minimum cosine (0 to 1) to a cluster's centre to join it. */
  readonly threshold?: number
  readonly maxClusters?: number
}

export interface SimilarTextCluster {
  /** Indexes of its texts, in order. */
  readonly members: readonly number[]
  /** The member nearest to the centre. */
  readonly centre: number
  /** Common keywords of the members, strongest first; at most five. */
  readonly keywords: readonly string[]
}
