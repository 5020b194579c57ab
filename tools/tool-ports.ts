import type { HeadlessBrowser } from '../providers/browser/port.ts'
import type { EgressClient, KeyringSecretResolver } from '../providers/egress/egress-client.ts'
import type { ChainReader } from '../providers/chain-data/port.ts'
import type { EmbeddingsClient } from '../providers/embeddings/port.ts'
import type {
  HiveWatchesAndFeature,
  HiveTextReservations,
  StrategyReader,
  HiveReader,
} from '../providers/hive/port.ts'
import type { HiveEvidenceSearch } from './intelligence/hive-evidence/port.ts'
import type { AgentActivityReader } from './intelligence/usage-advice/port.ts'
import type { LlmClient } from '../providers/llm/port.ts'
import type { Mailer } from '../providers/mail/port.ts'
import type { StationUpdates } from './intelligence/station-updates/port.ts'
import type { MemoryPackCatalogue } from './memory/packs/port.ts'
import type { PageReader } from '../providers/pages/port.ts'
import type { TaskPlanner } from './intelligence/planner/port.ts'
import type { PoolFinder } from '../providers/liquidity-pools/port.ts'
import type { PriceService } from '../providers/prices/price-service.ts'
import type { Sandbox } from '../providers/sandbox/port.ts'
import type { WebSearchClient } from '../providers/search/port.ts'
import type { SocialSearch } from '../providers/social/port.ts'
import type { TextAnalyzer } from '../providers/text/port.ts'
import type { UpstreamClient } from '../providers/upstream/upstream-client.ts'
import type { VaultPort } from './memory/vault/port.ts'

/** What tools may see of the world; wired in `app/compose/station.ts`. */
export interface ToolPorts {
  /** Addresses that callers choose. */
  readonly egress: EgressClient
  /** Addresses that the operator configured. */
  readonly upstream: UpstreamClient
  readonly prices: PriceService
  readonly search: WebSearchClient
  readonly social: SocialSearch
  /** E-mail to people; null where the operator has no mail server. */
  readonly mail: Mailer | null
  /** Pages with their scripts; null where this node has no Chromium it may use. */
  readonly browser: HeadlessBrowser | null
  /** Pages of strangers, read apart from everything. */
  readonly pages: PageReader
  /** Programs of strangers, run apart from everything. */
  readonly sandbox: Sandbox
  /** Public chains, as they are now. */
  readonly chain: ChainReader
  /** Where tokens are traded. */
  readonly pools: PoolFinder
  /** Language by rules, always there. */
  readonly text: TextAnalyzer
  /** Language models; null while the operator has configured none. */
  readonly llm: LlmClient | null
  /** Public entries, with what their authors are worth as witnesses. */
  readonly evidence: HiveEvidenceSearch
  /** What the caller's own calls say. */
  readonly facts: AgentActivityReader
  readonly planner: TaskPlanner
  /** Vectors of texts; null while the operator has no provider of them. */
  readonly embeddings: EmbeddingsClient | null
  readonly hive: HiveReader
  readonly hiveBoard: HiveWatchesAndFeature
  readonly hiveTexts: HiveTextReservations
  readonly strategies: StrategyReader
  /** The caller's own memories. */
  readonly vault: VaultPort
  /** Memory packs that are sold. */
  readonly packs: MemoryPackCatalogue
  /** What is new about this station. */
  readonly news: StationUpdates
  readonly directory: AgentDirectory
  readonly usage: ReputationReader
  readonly x402: X402Parser
  readonly catalogue: CatalogueView
  /** Keyring secrets of the caller; only egress ever asks, hop by hop (decision 39). */
  readonly secrets: KeyringSecretResolver
}

/** Who exists and who is about. */
export interface AgentDirectory {
  has(agentId: string): Promise<boolean>
  /** Agents with a call since `at` (milliseconds), most recent first, without `except`. */
  activeSince(at: number, limit: number, except: string | null): Promise<readonly string[]>
}

export interface AgentReputationScore {
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
export interface ReputationReader {
  /** Null for an agent that does not exist. */
  reputation(agentId: string): Promise<AgentReputationScore | null>
}

/** The wire forms of x402, of any version. */
export interface X402Parser {
  /** Refuses what is not x402 at all with `invalid_input`. */
  parse(given: {
    readonly header?: string
    readonly body?: unknown
    readonly headers?: Readonly<Record<string, unknown>>
  }): ParsedX402Message
}

export interface X402PaymentOption {
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

export interface ParsedX402Message {
  readonly kind: 'payment_required' | 'payment' | 'settlement'
  readonly x402_version: number | null
  readonly accepts: readonly X402PaymentOption[]
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
  readonly availability: ToolAvailability
}

export interface ToolAvailability {
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
