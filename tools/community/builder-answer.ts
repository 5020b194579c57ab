import { parseExactJson } from '../../core/json/exact.ts'
import type { CommunityToolEndpoint } from '../../domain/community-tool-record.ts'

/** What a builder answers, as it arrives and as it is judged. */

/** An answer as it arrived. */
export interface BuilderReply {
  readonly kind: CommunityToolEndpoint['kind']
  /** Of the request to an MCP server; else 0. */
  readonly id: number
  readonly status: number
  readonly contentType: string
  readonly body: Uint8Array
  /** What must not reach the caller. */
  readonly secrets: readonly string[]
}

export type BuilderVerdict =
  /** JSON text of an object that matches the schema. */
  | { readonly type: 'good'; readonly text: string }
  /** The input is refused; `words` are the builder's. */
  | { readonly type: 'refused'; readonly words: string }
  | { readonly type: 'status'; readonly status: number }
  /** `said` has the words of the schema, never those of the answer: it may repeat the input. */
  | { readonly type: 'invalid'; readonly said: string }

/** An answer in the form of one kind of builder, before its schema is looked at. */
export type BuilderAnswer =
  | { readonly type: 'value'; readonly value: unknown; readonly text?: string }
  | Exclude<BuilderVerdict, { readonly type: 'good' }>

/** The one place where JSON of builders is parsed; null for what is none, or not UTF-8. A BOM is left out. */
export function parseAnswerJson(
  body: Uint8Array,
): Extract<BuilderAnswer, { readonly type: 'value' }> | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(body)
    return { type: 'value', value: parseExactJson(text), text }
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError) return null
    throw error
  }
}
