import type { HeadlessBrowser } from '../providers/browser/browser-port.ts'
import type { EgressClient, KeyringSecretResolver } from '../providers/egress/egress-client-port.ts'
import type { ChainReader } from '../providers/chain-data/chain-data-port.ts'
import type { EmbeddingsClient } from '../providers/embeddings/embeddings-port.ts'
import type {
  HiveWatchesAndFeaturedSlot,
  HiveTextReservations,
  StrategyReader,
  HiveReader,
} from '../providers/hive/hive-port.ts'
import type { HiveEvidenceSearch } from './intelligence/hive-evidence/hive-evidence-search-port.ts'
import type { AgentActivityReader } from './intelligence/usage-advice/agent-activity-port.ts'
import type { LlmClient } from '../providers/llm/llm-port.ts'
import type { Mailer } from '../providers/mail/mail-port.ts'
import type { StationReleasesAndCatalogueRevisions } from './intelligence/station-updates/station-updates-port.ts'
import type { MemoryPackCatalogue } from './memory/packs/memory-packs-port.ts'
import type { PageParser } from '../providers/pages/page-parser-port.ts'
import type { TaskPlanner } from './intelligence/planner/planner-port.ts'
import type { LiquidityPoolFinder } from '../providers/liquidity-pools/liquidity-pools-port.ts'
import type { CoinPriceService } from '../providers/prices/asset-price-service.ts'
import type { Sandbox } from '../providers/sandbox/sandbox-port.ts'
import type { WebSearchClient } from '../providers/search/web-search-port.ts'
import type { SocialSearch } from '../providers/social/social-port.ts'
import type { RuleBasedTextAnalyzer } from '../providers/text/text-analyzer-port.ts'
import type { UpstreamClient } from '../providers/upstream/upstream-client.ts'
import type { VaultPort } from './memory/vault/vault-port.ts'

/** The external services that tools use; wired in `app/compose/compose-station.ts`. */
export interface ToolPorts {
  /** Fetches URLs chosen by callers. */
  readonly egress: EgressClient
  /** Fetches URLs configured by the operator. */
  readonly upstream: UpstreamClient
  readonly prices: CoinPriceService
  readonly search: WebSearchClient
  readonly social: SocialSearch
  /** E-mail to people; null without a mail server. */
  readonly mail: Mailer | null
  /** Renders pages with scripts; null without a usable Chromium on this node. */
  readonly browser: HeadlessBrowser | null
  /** Parses untrusted pages in isolation. */
  readonly pages: PageParser
  /** Runs untrusted programs in isolation. */
  readonly sandbox: Sandbox
  /** Reads the current state of public chains. */
  readonly chain: ChainReader
  /** Finds liquidity pools of tokens. */
  readonly pools: LiquidityPoolFinder
  /** Rule-based text analysis; always available. */
  readonly text: RuleBasedTextAnalyzer
  /** Language models; null without a configured one. */
  readonly llm: LlmClient | null
  /** Public Hive entries with the reputation of their authors. */
  readonly evidence: HiveEvidenceSearch
  /** Activity of the caller. */
  readonly facts: AgentActivityReader
  readonly planner: TaskPlanner
  /** Text embeddings; null without a configured provider. */
  readonly embeddings: EmbeddingsClient | null
  readonly hive: HiveReader
  readonly hiveBoard: HiveWatchesAndFeaturedSlot
  readonly hiveTexts: HiveTextReservations
  readonly strategies: StrategyReader
  /** The caller's private memories. */
  readonly vault: VaultPort
  /** Memory packs for sale. */
  readonly packs: MemoryPackCatalogue
  /** News of this station. */
  readonly news: StationReleasesAndCatalogueRevisions
  readonly directory: AgentLookup
  readonly usage: ReputationReader
  readonly x402: X402Parser
  readonly catalogue: ToolCatalogueReader
  /** Keyring secrets of the caller; only egress resolves them, hop by hop (decision 39). */
  readonly secrets: KeyringSecretResolver
}

/** Existing and recently active agents. */
export interface AgentLookup {
  has(agentId: string): Promise<boolean>
  /** Returns agents with a call since `at` (milliseconds), most recent first, without `except`. */
  activeSince(at: number, limit: number, except: string | null): Promise<readonly string[]>
}

export interface AgentReputationScore {
  readonly score: number
  readonly tier: string
  /** Lower bound of the 95 % Wilson interval over all its public calls. */
  readonly reliability: number
  readonly calls: number
  /** USDC. */
  readonly tipsReceived: number
  readonly hiveEntries: number
  readonly ageDays: number
  readonly components: Readonly<Record<string, number>>
}

/** Reads an agent's reputation from the ledger. */
export interface ReputationReader {
  /** Returns null for an unknown agent. */
  reputation(agentId: string): Promise<AgentReputationScore | null>
}

/** Parses x402 messages of any version. */
export interface X402Parser {
  /** Throws `invalid_input` for input that is not x402. */
  parse(given: {
    readonly header?: string
    readonly body?: unknown
    readonly headers?: Readonly<Record<string, unknown>>
  }): ParsedX402Message
}

export interface X402PaymentOption {
  readonly scheme: string | null
  /** CAIP-2 for a known name, else as given. */
  readonly network: string | null
  readonly amount_atomic: string | null
  /** Null unless the decimals of the asset are known. */
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

/** What the calls of a community tool show, without those of its builder. */
export interface CommunityToolQuality {
  readonly calls: number
  readonly success_rate: number | null
  readonly p50_ms: number
  readonly p95_ms: number
  readonly refunds: number
  readonly payers: number
  readonly schema_failures: number
}

/** A tool as `GET /api/tools` shows it. */
export interface CatalogueEntry {
  readonly slug: string
  readonly name: string
  readonly category: string
  readonly price_usdc: number
  readonly description: string
  readonly type: 'native' | 'community'
  /** Who built a community tool, and whether the station has verified it; absent for native tools. */
  readonly builder?: {
    readonly name: string
    readonly agent_id?: string
    readonly verified: boolean
  }
  /** Of a community tool: its state, whether promotional credits pay, and an announced price. */
  readonly state?: string
  readonly accepts_promo?: boolean
  readonly next_price?: { readonly price_usdc: number; readonly from: string } | null
  /** Measured over the calls of seven days; null without any. */
  readonly quality?: CommunityToolQuality | null
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
  /** Measured over calls without caller errors; null without any. */
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
  /** Its current mode: `native`, or that of its provider (`live`, `fixture`, `degraded`). */
  readonly mode: string
  /** Settings that would enable or improve it. */
  readonly requires: readonly string[]
  readonly providers: readonly string[]
  /** In words, why it does less on this station than its description says, or nothing. */
  readonly reason?: string
}

/** The catalogue as tools see it. */
export interface ToolCatalogueReader {
  entries(): readonly CatalogueEntry[]
}
