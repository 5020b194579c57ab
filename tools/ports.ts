import type { Browser } from './browser/port.ts'
import type { Egress, Secrets } from './egress/egress.ts'
import type { Chain } from './chain/port.ts'
import type { Embeddings } from './embeddings/port.ts'
import type { HiveBoard, HiveTexts, Strategies } from './hive/port.ts'
import type { Evidence } from './evidence/port.ts'
import type { Facts } from './facts/port.ts'
import type { Llm } from './llm/port.ts'
import type { Mail } from './mail/port.ts'
import type { News } from './news/port.ts'
import type { Packs } from './packs/port.ts'
import type { Pages } from './pages/port.ts'
import type { Planner } from './planner/port.ts'
import type { Pools } from './pools/port.ts'
import type { Prices } from './prices/prices.ts'
import type { Sandbox } from './sandbox/port.ts'
import type { Search } from './search/port.ts'
import type { Social } from './social/port.ts'
import type { Text } from './text/port.ts'
import type { Upstream } from './upstream/client.ts'
import type { Vault } from './vault/port.ts'

/** What tools may see of the world; wired in `app/compose.ts`. */
export interface Ports {
  /** Addresses that callers choose. */
  readonly egress: Egress
  /** Addresses that the operator configured. */
  readonly upstream: Upstream
  readonly prices: Prices
  readonly search: Search
  readonly social: Social
  /** E-mail to people; null where the operator has no mail server. */
  readonly mail: Mail | null
  /** Pages with their scripts; null where this node has no Chromium it may use. */
  readonly browser: Browser | null
  /** Pages of strangers, read apart from everything. */
  readonly pages: Pages
  /** Programs of strangers, run apart from everything. */
  readonly sandbox: Sandbox
  /** Public chains, as they are now. */
  readonly chain: Chain
  /** Where tokens are traded. */
  readonly pools: Pools
  /** Language by rules, always there. */
  readonly text: Text
  /** Language models; null while the operator has configured none. */
  readonly llm: Llm | null
  /** Public entries, with what their authors are worth as witnesses. */
  readonly evidence: Evidence
  /** What the caller's own calls say. */
  readonly facts: Facts
  readonly planner: Planner
  /** Vectors of texts; null while the operator has no provider of them. */
  readonly embeddings: Embeddings | null
  readonly hive: Hive
  readonly hiveBoard: HiveBoard
  readonly hiveTexts: HiveTexts
  readonly strategies: Strategies
  /** The caller's own memories. */
  readonly vault: Vault
  /** Memory packs that are sold. */
  readonly packs: Packs
  /** What is new about this station. */
  readonly news: News
  readonly directory: Directory
  readonly usage: Usage
  readonly x402: X402
  readonly catalogue: CatalogueView
  /** Keyring secrets of the caller; only egress ever asks, hop by hop (decision 39). */
  readonly secrets: Secrets
}

export interface HiveQuery {
  readonly text: string
  readonly namespace: string | null
  readonly minConfidence: number
  readonly limit: number
  /** The agent who asks: sees its own private entries. Null sees public ones only. */
  readonly agentId: string | null
  /** Whose reads count once a UTC day: the agent, or the visitor without a key. */
  readonly reader: string
  readonly at: number
}

export interface HiveHit {
  readonly id: string
  readonly content: string
  readonly confidence: number
  readonly namespace: string
  readonly agentId: string
  /** ISO 8601. */
  readonly at: string
  /** False when this reader has read it today already, or wrote it. */
  readonly firstReadToday: boolean
}

export interface HiveTrend {
  readonly domains: readonly { namespace: string; reads: number; writes: number; zScore: number }[]
  readonly tools: readonly { slug: string; calls: number; zScore: number }[]
  /** Milliseconds since the epoch. */
  readonly generatedAt: number
}

/** Shared memory. */
export interface Hive {
  /** Whether reads that are free, or paid for with promotional credits, owe a royalty (decision 105). */
  readonly promoRoyalties: boolean
  search(query: HiveQuery): Promise<{ entries: readonly HiveHit[]; total: number }>
  /** The last 24 hours against the seven days before; strongest first. */
  trending(limit: number): Promise<HiveTrend>
}

/** Who exists and who is about. */
export interface Directory {
  has(agentId: string): Promise<boolean>
  /** Agents with a call since `at` (milliseconds), most recent first, without `except`. */
  activeSince(at: number, limit: number, except: string | null): Promise<readonly string[]>
}

export interface Reputation {
  readonly score: number
  readonly tier: string
  /** Lower bound of the Wilson interval at 95 %, over all its public calls. */
  readonly reliability: number
  readonly calls: number
  /** USDC. */
  readonly tipsReceived: number
  readonly hiveEntries: number
  readonly ageDays: number
  readonly components: Readonly<Record<string, number>>
}

/** What the ledger says about an agent. */
export interface Usage {
  /** Null for an agent that does not exist. */
  reputation(agentId: string): Promise<Reputation | null>
}

/** The wire forms of x402, of any version. */
export interface X402 {
  /** Refuses what is not x402 at all with `invalid_input`. */
  parse(given: {
    readonly header?: string
    readonly body?: unknown
    readonly headers?: Readonly<Record<string, unknown>>
  }): X402Reading
}

export interface X402Accept {
  readonly scheme: string | null
  /** CAIP-2 where the name is known, else as it was written. */
  readonly network: string | null
  readonly amount_atomic: string | null
  /** Null unless the asset is one whose decimals are known. */
  readonly amount_usdc: number | null
  readonly asset: string | null
  readonly pay_to: string | null
  readonly resource: string | null
  readonly max_timeout_seconds: number | null
}

export interface X402Reading {
  readonly kind: 'payment_required' | 'payment' | 'settlement'
  readonly x402_version: number | null
  readonly accepts: readonly X402Accept[]
  readonly payment: Readonly<Record<string, unknown>> | null
  readonly valid: boolean
  readonly problems: readonly string[]
}

/** One tool as `GET /api/tools` shows it. */
export interface CatalogueEntry {
  readonly slug: string
  readonly name: string
  readonly category: string
  readonly price_usdc: number
  readonly description: string
  readonly type: 'native' | 'community'
  readonly access: 'paid' | 'free' | 'free_with_key'
  readonly key_required: boolean
  readonly acts_on_others: boolean
  readonly x402_compatible: boolean
  readonly free_tier: {
    readonly calls_per_day: number | null
    readonly overage_price_usdc: number | null
  } | null
  readonly call_endpoint: string
  readonly docs_url: string
  readonly tags: readonly string[]
  /** Measured, of calls that were right and paid for; null while there is none. */
  readonly success_rate: number | null
  readonly avg_latency_ms: number | null
  readonly input_schema: unknown
  readonly output_schema: unknown
  readonly example_calls: readonly Record<string, unknown>[]
  readonly use_cases: readonly string[]
  readonly availability: Availability
}

export interface Availability {
  readonly available: boolean
  /** How it answers now: `native`, or what its provider offers (`live`, `fixture`, `degraded`). */
  readonly mode: string
  /** Settings that would switch it on or make it better. */
  readonly requires: readonly string[]
  readonly providers: readonly string[]
}

/** What a tool may know about the others. */
export interface CatalogueView {
  entries(): readonly CatalogueEntry[]
}
