import type { WorkerPlace } from '../../core/concurrency/worker-pool.ts'
import type { ResponseFormat } from '../egress/parse-response-body.ts'
import type { FormsAndLinks } from './content/parse-page-forms-and-links.ts'
import type { PageText } from './page-text.ts'

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

/** A body in the requested format; as text with the reason where it does not fit. */
export interface ReceivedBody {
  readonly data: unknown
  readonly parse_error?: string
}

/**
 * Reads what strangers wrote in isolation, so that it blocks nothing else. An owner has one place at a time. Everything
 * rejects with `upstream_error` when it takes too much time or memory, with `unavailable` when too much waits, and with
 * the signal's reason.
 */
export interface PageParser {
  read(source: ReceivedWebPage, place: WorkerPlace): Promise<PageContent>
  /** Returns its links and its forms with everything they would submit. */
  forms(source: ReceivedWebPage, place: WorkerPlace): Promise<FormsAndLinks>
  /** Returns values by name or selector. */
  extract(source: ReceivedWebPage, what: string, place: WorkerPlace): Promise<string[]>
  /** Returns the first decoded characters of the source. */
  decodeText(source: ReceivedWebPage, most: number, place: WorkerPlace): Promise<string>
  /** Returns title and text only, of the beginning of a page. */
  text(source: ReceivedWebPage, place: WorkerPlace): Promise<PageText>
  /** Returns a response body as JSON, text or CSV records, of a size that costs its reader little. */
  parseBody(
    source: ReceivedWebPage,
    format: ResponseFormat,
    place: WorkerPlace,
  ): Promise<ReceivedBody>
}
