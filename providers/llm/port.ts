import type { TSchema } from 'typebox'

export type ModelPreference = 'cheapest' | 'fastest' | 'smartest'

export interface LlmRequest {
  readonly prompt: string
  readonly system?: string
  /** At most `LIMITS.llmTokens`. */
  readonly maxTokens: number
  /** 0 to 2. */
  readonly temperature?: number
  readonly preference: ModelPreference
  /** The answer must be JSON of this form; it is in `json` then, checked. */
  readonly schema?: TSchema
  /** Whose rate, and whose share of the day's budget, it counts in. */
  readonly caller: { readonly agentId: string | null; readonly visitor: string }
  /** The call that its cost is kept with. */
  readonly callId: string
}

export interface LlmAnswer {
  readonly text: string
  /** What was asked for by `schema`, else null. */
  readonly json: unknown
  readonly model: string
  readonly provider: string
  readonly tokens: { readonly prompt: number; readonly completion: number; readonly total: number }
  /** What the operator pays, rounded up to six decimals. */
  readonly costUsd: number
  /** Neither the provider's own cost nor its count of tokens was known. */
  readonly estimated: boolean
  readonly latencyMs: number
  readonly mode: 'live' | 'fixture'
}

/** Language models the operator has configured. */
export interface LlmClient {
  /** Ids of the providers, in the operator's order. */
  readonly providers: readonly string[]
  /**
   * Asks the models in the order of the preference until one answers; another is tried after a 429,
   * 5xx, a timeout or a refused key, never once a token has gone out. `onToken` gets the text as it arrives.
   * What each attempt cost is kept with the call, whatever becomes of it; no caller pays for it.
   * Rejects with `provider_budget_exhausted`, `model_share_exhausted`, `rate_limited`, `invalid_input`
   * (too long for every model), `upstream_error`, `upstream_timeout`, `upstream_rate_limited` or
   * `upstream_schema`.
   */
  complete(
    request: LlmRequest,
    signal: AbortSignal,
    onToken?: (delta: string) => void,
  ): Promise<LlmAnswer>
}
