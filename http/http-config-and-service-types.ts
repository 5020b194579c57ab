import type { ActorSystem } from '../actors/aggregate-command-types.ts'
import type { ActorHistory } from '../actors/inspection/actor-history.ts'
import type { ActorNames } from '../actors/inspection/inspector-actor-names.ts'
import type { InspectionFeed } from '../actors/inspection/inspection-feed.ts'
import type { CallService } from '../calls/call-request-and-reply-types.ts'
import type { ExplainedRefusalRecorder } from '../calls/explained-refusal-recorder.ts'
import type { ExplainedRefusalStore } from '../persistence/inspector/explained-refusal-store.ts'
import type { BackpackRefusalLog } from '../calls/backpack-refusal-log.ts'
import type { AttestationPublicKey } from '../core/attestations/did-document.ts'
import type { AttestationTreeReader } from '../persistence/attestations/attestation-tree-reader.ts'
import type { CallReceipts } from '../calls/call-receipts.ts'
import type { Clock } from '../core/clock.ts'
import type { Micros } from '../core/money.ts'
import type { EndpointProber } from '../jobs/x402/payable-endpoint-prober.ts'
import type { WebhookDeliverer } from '../jobs/webhook-deliverer.ts'
import type { DepositScanHealth } from '../jobs/deposit-scan-job.ts'
import type { OwnerAlerts } from '../jobs/owner-alerts/owner-alert-service.ts'
import type { AgentOnboarding } from '../payments/agent-onboarding.ts'
import type { BountyService } from '../payments/bounty-service.ts'
import type { createMemorySellerReputationLookup } from '../memory/memory-marketplace/memory-listings-with-seller-reputation.ts'
import type { MemoryMarketplaceService } from '../payments/memory-marketplace-service.ts'
import type { FleetService } from '../payments/fleets/fleet-service.ts'
import type { OnboardingRateLimit } from '../payments/limits/onboarding-rate-limit.ts'
import type { WalletFundingStatusReader } from '../payments/deposits/wallet-funding-status.ts'
import type { AgentDirectoryStore } from '../persistence/agents/agent-directory-store.ts'
import type { CookbookBadgeStore } from '../persistence/agents/cookbook-badge-store.ts'
import type { ManifestoSignatureStore } from '../persistence/agents/manifesto-signature-store.ts'
import type { CryptoMarketOverviewReader } from '../providers/prices/market-overview.ts'
import type { PublicStatistics } from '../memory/statistics/public-statistics.ts'
import type { PaymentService } from '../payments/payment-service-types.ts'
import type { WalletExportService } from '../payments/deposits/wallet-export.ts'
import type { OwnerAlertStore } from '../persistence/notifications/owner-alert-store.ts'
import type { WeeklyDigestStore } from '../persistence/notifications/weekly-digest-store.ts'
import type { BackpackAccountStatementStore } from '../persistence/account-statement/backpack-account-statement-store.ts'
import type { MessageBus } from '../persistence/message-bus.ts'
import type { CallLogStore } from '../persistence/calls/call-log-store.ts'
import type { BackpackClipboardStore } from '../persistence/agents/backpack-clipboard-store.ts'
import type { WebhookDeliveryStore } from '../persistence/webhooks/webhook-delivery-store.ts'
import type { DepositStore } from '../persistence/payments/deposit-store.ts'
import type { CreditDropStore } from '../persistence/payments/credit-drop-store.ts'
import type { KeyringStore } from '../persistence/agents/backpack-keyring-store.ts'
import type { ApiKeyStore } from '../persistence/agents/api-key-store.ts'
import type { AgentMessageStore } from '../persistence/agents/agent-message-store.ts'
import type { DailyByteCounter } from '../persistence/daily-stored-byte-quotas.ts'
import type { IdempotentWrites } from '../persistence/idempotency/idempotent-writes.ts'
import type { TaskBackpackListStore } from '../persistence/agents/task-backpack-list-store.ts'
import type { OutboxStore } from '../persistence/outbox-store.ts'
import type { RoyaltyStore } from '../persistence/hive/royalty-store.ts'
import type { StationPostgresAndRedis } from '../persistence/start-postgres-and-redis.ts'
import type { NotificationChannel } from '../domain/notification-channel-types.ts'
import type { OwnerSessionStore } from '../persistence/agents/owner-session-store.ts'
import type { AgentProfileStore } from '../persistence/agents/agent-profile-store.ts'
import type { AgentGoalPulseStore } from '../persistence/realtime/agent-goal-pulse-store.ts'
import type { ReferralStore } from '../persistence/agents/referral-store.ts'
import type { ScheduleStore } from '../persistence/schedules/schedule-store.ts'
import type { SettlementQueries } from '../persistence/payments/settlement-queries.ts'
import type { SignalStore } from '../persistence/realtime/channel-signal-store.ts'
import type { AgentSpendingReportStore } from '../persistence/account-statement/agent-spending-report-store.ts'
import type { AccountStatementStore } from '../persistence/account-statement/account-statement-store.ts'
import type { StrategyStore } from '../persistence/hive/strategy-store.ts'
import type { AgentTransferStore } from '../persistence/payments/agent-transfer-store.ts'
import type { ActorSearchStore } from '../persistence/inspector/actor-search-store.ts'
import type { InspectorAccess } from './inspector/inspector-access.ts'
import type { HiveOverview } from '../memory/hive/hive-overview.ts'
import type { MemoryVaultService } from '../memory/vault/memory-vault-service.ts'
import type { RealtimeService } from '../realtime/realtime-service.ts'
import type { InstalledMemoryPack } from '../persistence/vault/vault-share-promotion-and-pack-store.ts'
import type { VaultStore } from '../persistence/vault/vault-store.ts'
import type { PayableApiDirectory } from '../persistence/x402/payable-api-directory.ts'
import type { PayableApiStore } from '../persistence/x402/payable-api-store.ts'
import type { OriginOwnershipChallenge } from '../providers/egress/origin-ownership-challenge.ts'
import type { WebhookStore } from '../persistence/webhooks/webhook-store.ts'
import type { ToolImportService } from '../calls/community/tool-import-service.ts'
import type { CommunityToolService } from '../calls/community/community-tool-service.ts'
import type { CommunityToolCallStore } from '../persistence/tools/community-tool-call-store.ts'
import type { ToolCatalogue } from '../tools/tool-catalogue.ts'
import type { MemoryPackCatalogue } from '../tools/memory/packs/memory-packs-port.ts'
import type { ToolPorts } from '../tools/tool-ports.ts'
import type { SandboxHealth } from '../providers/sandbox/sandbox.ts'
import type { TaskPlanningService } from '../tools/intelligence/planner/planner-port.ts'
import type { PageRenderers } from './page-renderers.ts'
import type { createSendAgentMessage } from './actions/send-agent-message.ts'
import type { createPublishSignal } from './actions/publish-signal.ts'
import type { createPublishAgentPulse } from './actions/publish-pulse.ts'

/** Settings that the HTTP layer uses. */
export interface HttpConfig {
  readonly production: boolean
  /** The public base URL without a trailing slash; never taken from a Host header. */
  readonly publicUrl: string
  /** Whether agents can be funded by deposits. */
  readonly deposits: boolean
  readonly version: string
  /** Proxies whose `X-Forwarded-For` is trusted; false for none. */
  readonly trustProxy: false | number | string[]
  readonly operatorToken: { reveal(): string } | null
  /** The e-mail address of the operator for the public; null where none is published. */
  readonly operatorContact: string | null
  readonly rateLimits: boolean
  readonly onboardPerHourPerIp: number
  readonly bulkOnboardMax: number
  readonly starterCredits: Micros
  /** The maximum exposure to calls that run before their payment settles. */
  readonly exposure: Micros
  /** Whether promotional credits may be sent to another agent (decision 25). */
  readonly promoTransferable: boolean
  readonly logLevel: string
  /** Key that turns addresses into visitor ids (purpose `visitor`). */
  readonly visitorKey: Buffer
  /**
   * Key that fingerprints requests with an Idempotency-Key (purpose `fingerprints`): bodies may hold secrets.
   */
  readonly fingerprintKey: Buffer
}

/** Everything that routes depend on; built by `app/compose/compose-station.ts`, passed to `buildHttpServer`. */
export interface HttpServices {
  readonly config: HttpConfig
  readonly clock: Clock
  readonly actors: ActorSystem
  readonly calls: CallService
  readonly receipts: CallReceipts
  /** Refusals by Backpacks. Calls log their own; other spending logs here. */
  readonly refusals: BackpackRefusalLog
  readonly catalogue: ToolCatalogue
  /** Tools that agents sell. */
  readonly builders: CommunityToolService
  readonly toolImports: ToolImportService
  readonly communityCalls: Pick<CommunityToolCallStore, 'earningsOf' | 'failuresOf' | 'figures'>
  readonly planning: TaskPlanningService
  /** How untrusted programs are isolated on this node. */
  readonly sandboxHealth: () => SandboxHealth
  readonly accounts: AgentOnboarding
  readonly newcomers: OnboardingRateLimit
  readonly paying: PaymentService
  /** For each chain: whether payments on it are enabled, or why not. */
  readonly rails: () => Record<string, string>
  readonly settlements: Pick<SettlementQueries, 'counts'>
  readonly fleets: FleetService
  readonly drops: CreditDropStore
  readonly schedules: Pick<ScheduleStore, 'filesOf' | 'seal'>
  readonly bounties: BountyService
  readonly marketplace: MemoryMarketplaceService & {
    readonly withReputations: ReturnType<typeof createMemorySellerReputationLookup>
  }
  readonly referrals: ReferralStore
  /** The Hive over HTTP: searches, stats and digest. */
  readonly hive: Pick<HiveOverview, 'stats' | 'digest'> &
    Pick<ToolPorts['hive'], 'search' | 'trending'>
  /** Memories of agents, as their owners see them. */
  readonly vault: Pick<MemoryVaultService, 'stats'> & Pick<VaultStore, 'all' | 'received'>
  readonly packs: Pick<MemoryPackCatalogue, 'packs' | 'bundle'> & {
    installs(agentId: string): Promise<InstalledMemoryPack[]>
  }
  readonly statistics: PublicStatistics
  /** The tree of fees, and what signs it. */
  readonly attestations: {
    readonly tree: AttestationTreeReader
    /** The name of the tree, which its signatures have. */
    origin(): Promise<string>
    /** The keys that sign, the newest first, as verifiers take them. */
    verifierKeys(): Promise<string[]>
    keys(): Promise<AttestationPublicKey[]>
    sign(text: string): Promise<string>
  }
  readonly news: ToolPorts['news']
  readonly market: CryptoMarketOverviewReader
  readonly directory: AgentDirectoryStore
  readonly manifesto: ManifestoSignatureStore
  readonly cookbook: CookbookBadgeStore
  readonly royalties: Pick<RoyaltyStore, 'of'>
  readonly strategies: StrategyStore
  readonly keys: ApiKeyStore
  readonly keptBytes: DailyByteCounter
  readonly profiles: AgentProfileStore
  readonly ownerSessions: OwnerSessionStore
  readonly keyring: KeyringStore
  readonly clipboard: BackpackClipboardStore
  readonly events: OutboxStore
  readonly messages: AgentMessageStore
  readonly signals: SignalStore
  readonly pulses: AgentGoalPulseStore
  readonly realtime: RealtimeService
  /** Writes shared by REST and the WebSocket. */
  readonly publish: ReturnType<typeof createPublishSignal>
  readonly pulse: ReturnType<typeof createPublishAgentPulse>
  readonly send: ReturnType<typeof createSendAgentMessage>
  readonly webhooks: {
    readonly store: WebhookStore
    readonly deliveries: WebhookDeliveryStore
    /** Throws `blocked_url` for an address that may not be fetched. */
    checkUrl(url: string): Promise<void>
    /** The same check by spelling alone; `pointer` is the field of the address. */
    checkSpelling(url: string, pointer: string): void
    /** Wakes the scheduler after something due was added. */
    wake(): void
    readonly deliverer: Pick<WebhookDeliverer, 'health' | 'onAttempt'>
  }
  /** The registry of pay-per-call APIs. */
  readonly x402: {
    readonly apis: PayableApiStore
    readonly directory: PayableApiDirectory
    readonly prober: EndpointProber
    readonly challenge: OriginOwnershipChallenge
  }
  readonly owners: {
    readonly store: OwnerAlertStore
    readonly alerts: OwnerAlerts
    readonly spending: AgentSpendingReportStore
    readonly digests: Pick<WeeklyDigestStore, 'find' | 'change'>
    /** Null on a station without mail. */
    readonly mail: Pick<NotificationChannel, 'send'> | null
  }
  readonly ledger: AgentTransferStore
  readonly ownLists: TaskBackpackListStore
  readonly statements: AccountStatementStore
  readonly backpackStatements: BackpackAccountStatementStore
  readonly deposits: DepositStore
  readonly depositHealth: () => DepositScanHealth
  readonly funding: WalletFundingStatusReader
  readonly walletExports: WalletExportService
  /** Pages, badges and feeds, rendered by `web/`. */
  readonly pages: PageRenderers
  /** What the inspector watches; null where it is off. */
  readonly inspection: InspectionFeed | null
  readonly inspectorAccess: InspectorAccess
  readonly actorNames: Pick<ActorNames, 'nameOf' | 'remember'>
  readonly actorDirectory: ActorSearchStore
  readonly actorHistory: ActorHistory
  readonly explained: ExplainedRefusalRecorder
  readonly refusalStore: ExplainedRefusalStore
  readonly callLog: CallLogStore
  readonly once: IdempotentWrites
  readonly plane: Pick<StationPostgresAndRedis, 'health' | 'redis' | 'kinds' | 'storage'> & {
    readonly bus: MessageBus
  }
  /** A few live prices for the welcome message; null when no source answers. */
  prices(): Promise<Record<string, unknown> | null>
}
