/** Generated from the catalogue by `npm run docs:sdk`. */
export interface FinanceToolTypes {
  /** USD prices, 24 h change and market capitalisation of about 150 crypto assets; null for an unknown symbol. */
  price_feed: {
    input: {
      /** Comma-separated symbols. */
      readonly query?: string
      readonly symbols?: readonly string[]
    }
    output: {
      readonly prices: Readonly<Record<string, {
        readonly usd: number
        readonly usd_24h_change: number | null
        readonly usd_market_cap: number | null
      } | null>>
      readonly source: string | null
      /** Time of the oldest observation. */
      readonly timestamp: string
      readonly stale?: boolean
      readonly age_ms?: number
    }
  }
  /** Reads x402 payment headers and 402 bodies of version 1 and 2 and returns the payment they ask for. */
  x402_parse: {
    input: {
      /** The value of one header. */
      readonly header?: string
      readonly body?: Readonly<Record<string, unknown>> | string
      /** All headers of a request or response. */
      readonly headers?: Readonly<Record<string, string>>
    }
    output: {
      readonly kind: 'payment_required' | 'payment' | 'settlement'
      readonly x402_version: number | null
      readonly accepts: readonly {
        readonly scheme: string | null
        readonly network: string | null
        readonly amount_atomic: string | null
        readonly amount_usdc: number | null
        readonly asset: string | null
        readonly pay_to: string | null
        readonly resource: string | null
        readonly max_timeout_seconds: number | null
      }[]
      readonly payment: Readonly<Record<string, unknown>> | null
      readonly valid: boolean
      readonly problems: readonly string[]
    }
  }
}
