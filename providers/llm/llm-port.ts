import type { TSchema } from 'typebox'

/** Interface to language models. */

export type ModelPreference = 'cheapest' | 'fastest' | 'smartest'

export interface LlmRequest {
  readonly prompt: string
  readonly system?: string
  /** At most `LIMITS.llmTokens`. */
  readonly maxTokens: number
  /** 0 to 2. */
  readonly temperature?: number
  readonly preference: ModelPreference
  /** The JSON schema of the answer; the validated value is in `json`. */
  readonly schema?: TSchema
  /** The caller whose rate limit and budget share it counts against. */
  readonly caller: {
    readonly agentId: string | null
    readonly visitor: string
    readonly site: string | null
  }
  /** The call that its cost is stored with. */
  readonly callId: string
}

export interface LlmAnswer {
  readonly text: string
  /** The value requested by `schema`, else null. */
  readonly json: unknown
  readonly model: string
  readonly provider: string
  readonly tokens: { readonly prompt: number; readonly completion: number; readonly total: number }
  /** The operator's cost, rounded up to six decimals. */
  readonly costUsd: number
  /** True when the provider returned neither a cost nor a token count. */
  readonly estimated: boolean
  readonly latencyMs: number
  readonly mode: 'live' | 'fixture'
}

/** Language models configured by the operator. */
export interface LlmClient {
  /** Ids of the providers, in the operator's order. */
  readonly providers: readonly string[]
  /**
   * Tries models in order of preference until one answers; after a 429, 5xx, timeout or refused key the next
   * one, but never after a token was sent. `onToken` gets the text as it arrives. The cost of each attempt is
   * stored with the call and not charged to the caller. Rejects with `provider_budget_exhausted`,
   * `model_share_exhausted`, `rate_limited`, `invalid_input` (too long for every model), `upstream_error`,
   * `upstream_timeout`, `upstream_rate_limited` or `upstream_schema`.
   */
  complete(
    request: LlmRequest,
    signal: AbortSignal,
    onToken?: (delta: string) => void,
  ): Promise<LlmAnswer>
}
