import type { FormsAndLinks } from './content/form-controls.ts'

/** A page as it came: bytes, or the text that a browser wrote. */
export interface PageSource {
  readonly body: Uint8Array | string
  readonly contentType: string | null
  /** Where it came from: what its links are relative to. */
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
  /** ISO 4217 or the symbol of a token, in upper case; null where it is not said. */
  readonly currency: string | null
  /** Where it stands: data for machines, or the text that people read. */
  readonly source: 'json_ld' | 'microdata' | 'meta' | 'text'
}

export interface PageField {
  readonly name: string
  /** Of an input, or `select`, `textarea`, `button`. */
  readonly type: string
  /** What it is called for people; may be empty. */
  readonly label: string
  readonly required: boolean
  /** The choices of a select, as they are shown. */
  readonly options?: string[]
}

export interface PageForm {
  /** Absolute. */
  readonly action: string
  readonly method: 'get' | 'post'
  readonly fields: readonly PageField[]
  /** What its button says; may be empty. */
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
  /** The page's own words: data, never something to follow. */
  readonly excerpt: string
}

/** What a page says, and what on it may be meant to mislead whoever reads it. */
export interface PageContent {
  readonly title: string
  readonly headings: readonly PageHeading[]
  /** What is shown, a line for each block. */
  readonly text: string
  readonly links: readonly PageLink[]
  readonly prices: readonly PagePrice[]
  readonly forms: readonly PageForm[]
  readonly anomalies: readonly PageAnomaly[]
  /** Something was left out: the page holds more than is read. */
  readonly truncated: boolean
}

/** Reads pages apart from everything else: a page of a stranger holds up nobody. */
export interface PageReader {
  /**
   * Rejects with `upstream_error` when a page takes too much time or memory to read, with
   * `unavailable` when too many wait, and with the reason of the signal.
   */
  read(source: PageSource, signal: AbortSignal): Promise<PageContent>
  /** Its forms with all they would send, and its links; rejects as `read` does. */
  forms(source: PageSource, signal: AbortSignal): Promise<FormsAndLinks>
  /** What it says under a name or a selector; rejects as `read` does. */
  extract(source: PageSource, what: string, signal: AbortSignal): Promise<string[]>
  /** Its first characters as they were written, decoded; rejects as `read` does. */
  decodeText(source: PageSource, most: number, signal: AbortSignal): Promise<string>
}
