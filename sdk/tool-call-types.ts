import type { QuotedPrice } from './quoted-price.ts'
import type { ToolTypes } from './tools/tool-types.ts'

/** Types of tool calls: their input, output and options. */

export type ToolName = keyof ToolTypes
export type InputOf<T extends ToolName> = ToolTypes[T]['input']
export type OutputOf<T extends ToolName> = ToolTypes[T]['output']

/** What the station adds to the output of a tool. */
export interface ToolReplyMeta {
  readonly _meta: {
    readonly call_id: string
    readonly cost_usdc: number
    /** Null for a caller without a key. */
    readonly balance_usdc: number | null
    readonly rail: string
    readonly receipt: string
    readonly [name: string]: unknown
  }
  readonly echo_recycled?: boolean
  readonly ghost_protocol?: unknown
  readonly hive?: unknown
}
export type ToolReply<T extends ToolName> = OutputOf<T> & ToolReplyMeta

export interface ToolCallOptions {
  readonly taskId?: string | undefined
  readonly backpackId?: string | undefined
  /** Keeps the call out of public statistics. */
  readonly ghost?: 'stealth' | 'observe'
  /** A call with the key of an earlier one gets its answer and is not charged again. */
  readonly idempotencyKey?: string
  readonly signal?: AbortSignal
}

export interface ToolQuote extends QuotedPrice {
  readonly tool: string
  readonly rail: string | null
  readonly free_calls_left: number | null
  readonly would_refuse: Readonly<Record<string, unknown>> | null
}

/** A tool as `GET /api/tools` lists it. */
export interface ListedTool {
  readonly slug: string
  readonly name: string
  readonly description: string
  readonly category: string
  readonly price_usdc: number
  readonly type: 'native' | 'community'
  readonly access: 'paid' | 'free' | 'free_with_key'
  readonly key_required: boolean
  readonly acts_on_others: boolean
  /** Tools of other agents have theirs at `/api/tools/{slug}`. */
  readonly input_schema?: Readonly<Record<string, unknown>>
  readonly output_schema?: Readonly<Record<string, unknown>>
  readonly availability: { readonly available: boolean }
}

/** Tools as functions: `gas.tools.price_feed({ query: 'BTC' })`. */
export type ToolFunctions = {
  readonly [T in ToolName]: (input: InputOf<T>, options?: ToolCallOptions) => Promise<ToolReply<T>>
}
