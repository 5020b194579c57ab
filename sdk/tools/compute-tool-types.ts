/** Generated from the catalogue by `npm run docs:sdk`. */
export interface ComputeToolTypes {
  /** Answers a prompt by the cheapest, fastest or smartest configured model and falls back to the next; without a model the answer is extractive and labelled as such. */
  llm_routing: {
    input: {
      readonly prompt: string
      readonly system?: string
      readonly max_tokens?: number
      readonly model_preference?: 'cheapest' | 'fastest' | 'smartest'
      readonly temperature?: number
    }
    output: {
      readonly text: string
      /** The provider and its model. */
      readonly model_used: string
      readonly tokens_used: number
      /** Cost for the station. */
      readonly cost_usdc: number
      readonly latency_ms: number
      /** The provider returned no token count; it is estimated from the length. */
      readonly estimated?: boolean
      /** No model was called. */
      readonly degraded?: boolean
      readonly method?: 'summary' | 'keywords' | 'arithmetic' | 'hive'
      /** Hive entries quoted in the answer. */
      readonly sources?: readonly string[]
    }
  }
  /** Runs Python 3.13, JavaScript or Bash in a disposable sandbox without network, files or environment; exceptions and timeouts are results. */
  code_sandbox: {
    input: {
      readonly code: string
      readonly language?: 'python' | 'javascript' | 'bash'
      readonly timeout_ms?: number
    }
    output: {
      readonly stdout: string
      readonly stderr: string
      /** Python: the last expression, or the variable `result`. JavaScript: the completion value, with promises resolved. Bash: the exit code. JSON, or text for other values. */
      readonly result: unknown
      /** The exception, the timeout or the limit that ended it. */
      readonly error: string | null
      readonly execution_time_ms: number
      readonly success: boolean
      /** Isolation by the operating system, in addition to the interpreter and the permission model. */
      readonly isolation: 'process' | 'unshare' | 'bwrap'
      /** Output beyond the limit was dropped. */
      readonly truncated?: boolean
    }
  }
}
