import type { FormsAndLinks } from './content/parse-page-forms-and-links.ts'

/** A page as received: bytes, or text serialized by a browser. */
export interface ReceivedWebPage {
  readonly body: Uint8Array | string
  readonly contentType: string | null
  /** Its address, which relative links are resolved against. */
  readonly url: string
}

export interface PageHeading {
  /** 1 to 6. */
  readonly level: number
  readonly text: string
}

export interface PageLink {
  /** May be empty. */
  readonly text: string
  /** Absolute. */
  readonly url: string
}

export interface PagePrice {
  readonly amount: number
  /** ISO 4217 or a token symbol, in upper case; null where it is missing. */
  readonly currency: string | null
  /** Where it was found: metadata, or visible text. */
  readonly source: 'json_ld' | 'microdata' | 'meta' | 'text'
}

export interface PageField {
  readonly name: string
  /** The type of an input, or `select`, `textarea`, `button`. */
  readonly type: string
  /** The label for people; may be empty. */
  readonly label: string
  readonly required: boolean
  /** The visible options of a select. */
  readonly options?: string[]
}

export interface PageForm {
  /** Absolute. */
  readonly action: string
  readonly method: 'get' | 'post'
  readonly fields: readonly PageField[]
  /** The text of its submit button; may be empty. */
  readonly submit: string
}

export const PAGE_ANOMALY_TYPES = [
  'hidden_instruction',
  'comment_instruction',
  'override_phrase',
  'secret_request',
  'transfer_request',
  'invisible_characters',
  'tag_characters',
  'bidi_override',
  'encoded_blob',
  'script_link',
  'data_link',
  'foreign_form',
  'insecure_password',
  'meta_refresh',
  'punycode_link',
  'price_mismatch',
] as const

export interface PageAnomaly {
  readonly type: (typeof PAGE_ANOMALY_TYPES)[number]
  readonly severity: 'low' | 'medium' | 'high'
  /** A quote from the page: data, never instructions. */
  readonly excerpt: string
}

/** The content of a page, and what on it may mislead a reader. */
export interface PageContent {
  readonly title: string
  readonly headings: readonly PageHeading[]
  /** Visible text, with a line per block. */
  readonly text: string
  readonly links: readonly PageLink[]
  readonly prices: readonly PagePrice[]
  readonly forms: readonly PageForm[]
  readonly anomalies: readonly PageAnomaly[]
  /** The page has more content than was parsed. */
  readonly truncated: boolean
}

/** Parses pages in isolation, so that an untrusted page blocks nothing else. */
export interface PageParser {
  /**
   * Parses a page. Rejects with `upstream_error` when it takes too much time or memory, with `unavailable`
   * when the queue is full, and with the signal's reason.
   */
  read(source: ReceivedWebPage, signal: AbortSignal): Promise<PageContent>
  /** Returns its links and its forms with everything they would submit; rejects as `read` does. */
  forms(source: ReceivedWebPage, signal: AbortSignal): Promise<FormsAndLinks>
  /** Returns values by name or selector; rejects as `read` does. */
  extract(source: ReceivedWebPage, what: string, signal: AbortSignal): Promise<string[]>
  /** Returns the first decoded characters of the source; rejects as `read` does. */
  decodeText(source: ReceivedWebPage, most: number, signal: AbortSignal): Promise<string>
}
