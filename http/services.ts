import type { Actors } from '../actors/command.ts'
import type { Calls } from '../calls/calls.ts'
import type { RefusalLog } from '../calls/refusal-log.ts'
import type { Receipts } from '../calls/receipts.ts'
import type { Clock } from '../core/clock.ts'
import type { FundStatus, FundView, Page } from '../core/funding.ts'
import type { Micros } from '../core/money.ts'
import type { Deliverer } from '../jobs/deliveries.ts'
import type { DepositHealth } from '../jobs/deposit-scan.ts'
import type { OwnerAlerts } from '../jobs/owner-alerts.ts'
import type { Accounts } from '../payments/accounts.ts'
import type { Bounties } from '../payments/bounties.ts'
import type { Fleets } from '../payments/fleets.ts'
import type { NewcomerCount } from '../payments/newcomers.ts'
import type { Funding } from '../payments/funding.ts'
import type { Paying } from '../payments/paying.ts'
import type { WalletExports } from '../payments/wallet-export.ts'
import type { AlertStore } from '../persistence/alerts.ts'
import type { BackpackStatementStore } from '../persistence/backpack-statement.ts'
import type { Bus } from '../persistence/bus.ts'
import type { CallLog } from '../persistence/call-log.ts'
import type { ClipboardStore } from '../persistence/clipboard.ts'
import type { DeliveryStore } from '../persistence/deliveries.ts'
import type { DepositStore } from '../persistence/deposits.ts'
import type { DropStore } from '../persistence/drops.ts'
import type { KeyringStore } from '../persistence/keyring.ts'
import type { KeyStore } from '../persistence/keys.ts'
import type { MessageStore } from '../persistence/messages.ts'
import type { Once } from '../persistence/once.ts'
import type { OwnListStore } from '../persistence/own-lists.ts'
import type { OutboxStore } from '../persistence/outbox.ts'
import type { RoyaltyStore } from '../persistence/hive-royalties.ts'
import type { Plane } from '../persistence/plane.ts'
import type { ProfileStore } from '../persistence/profiles.ts'
import type { PulseStore } from '../persistence/pulses.ts'
import type { ReferralStore } from '../persistence/referrals.ts'
import type { ScheduleStore } from '../persistence/schedules.ts'
import type { SettlementStore } from '../persistence/settlements.ts'
import type { SignalStore } from '../persistence/signals.ts'
import type { SpendingStore } from '../persistence/spending.ts'
import type { StatementStore } from '../persistence/statement.ts'
import type { StrategyStore } from '../persistence/strategies.ts'
import type { TransferStore } from '../persistence/transfers.ts'
import type { Board } from '../memory/hive-board.ts'
import type { Vault } from '../memory/vault.ts'
import type { Realtime } from '../realtime/realtime.ts'
import type { PackInstall } from '../persistence/vault-exchange.ts'
import type { VaultStore } from '../persistence/vault.ts'
import type { WebhookStore } from '../persistence/webhooks.ts'
import type { Catalogue } from '../tools/catalogue.ts'
import type { Packs } from '../tools/packs/port.ts'
import type { Ports } from '../tools/ports.ts'
import type { SandboxHealth } from '../tools/sandbox/sandbox.ts'
import type { Planning } from '../tools/planner/port.ts'
import type { messaging } from './messaging.ts'
import type { publishing } from './publishing.ts'
import type { pulsing } from './pulsing.ts'

/** What the face of the service needs to know of its settings. */
export interface HttpConfig {
  readonly production: boolean
  /** Where callers reach the service, without a slash at its end; never taken from a Host header. */
  readonly publicUrl: string
  /** Whether agents can be funded by deposits. */
  readonly deposits: boolean
  readonly version: string
  /** Whose `X-Forwarded-For` counts; false is nobody's. */
  readonly trustProxy: false | number | string[]
  readonly operatorToken: { reveal(): string } | null
  readonly rateLimits: boolean
  readonly onboardPerHourPerIp: number
  readonly bulkOnboardMax: number
  readonly starterCredits: Micros
  /** What may be at stake at once by calls that run before they are paid for. */
  readonly exposure: Micros
  /** Whether promotional credits may be sent to another agent (decision 25). */
  readonly promoTransferable: boolean
  readonly logLevel: string
  /** Turns addresses into visitor ids (purpose `visitor`). */
  readonly visitorKey: Buffer
  /** Fingerprints requests that carry an Idempotency-Key (purpose `fingerprints`): bodies may hold secrets. */
  readonly fingerprintKey: Buffer
}

/** Everything a route may reach; built by `app/compose.ts`, handed to `buildServer`. */
export interface Services {
  readonly config: HttpConfig
  readonly clock: Clock
  readonly actors: Actors
  readonly calls: Calls
  readonly receipts: Receipts
  /** What Backpacks refuse: calls note it by themselves, other ways to spend here. */
  readonly refusals: RefusalLog
  readonly catalogue: Catalogue
  readonly planning: Planning
  /** How programs of strangers are kept apart here. */
  readonly sandboxHealth: () => SandboxHealth
  readonly accounts: Accounts
  readonly newcomers: NewcomerCount
  readonly paying: Paying
  /** For each chain, whether payments on it are on, or why not. */
  readonly rails: () => Record<string, string>
  readonly settlements: Pick<SettlementStore, 'counts'>
  readonly fleets: Fleets
  readonly drops: DropStore
  readonly schedules: Pick<ScheduleStore, 'filesOf' | 'seal'>
  readonly bounties: Bounties
  readonly referrals: ReferralStore
  /** The Hive over HTTP: its searches, its stats and its digest. */
  readonly hive: Pick<Board, 'stats' | 'digest'> & Pick<Ports['hive'], 'search'>
  /** Memories of agents, as their owners see them. */
  readonly vault: Pick<Vault, 'stats'> & Pick<VaultStore, 'all' | 'received'>
  readonly packs: Pick<Packs, 'packs' | 'bundle'> & {
    installs(agentId: string): Promise<PackInstall[]>
  }
  readonly royalties: Pick<RoyaltyStore, 'of'>
  readonly strategies: StrategyStore
  readonly keys: KeyStore
  readonly profiles: ProfileStore
  readonly keyring: KeyringStore
  readonly clipboard: ClipboardStore
  readonly events: OutboxStore
  readonly messages: MessageStore
  readonly signals: SignalStore
  readonly pulses: PulseStore
  readonly realtime: Realtime
  /** The writes that REST and the socket share. */
  readonly publish: ReturnType<typeof publishing>
  readonly pulse: ReturnType<typeof pulsing>
  readonly send: ReturnType<typeof messaging>
  readonly webhooks: {
    readonly store: WebhookStore
    readonly deliveries: DeliveryStore
    /** Refuses an address that may not be reached, with `blocked_url`. */
    checkUrl(url: string): Promise<void>
    /** The same by the spelling alone; `pointer` is the field it came in. */
    checkSpelling(url: string, pointer: string): void
    /** Something was added that is due. */
    wake(): void
    readonly deliverer: Pick<Deliverer, 'health' | 'onAttempt'>
  }
  readonly owners: {
    readonly store: AlertStore
    readonly alerts: OwnerAlerts
    readonly spending: SpendingStore
  }
  readonly ledger: TransferStore
  readonly ownLists: OwnListStore
  readonly statements: StatementStore
  readonly backpackStatements: BackpackStatementStore
  readonly deposits: DepositStore
  readonly depositHealth: () => DepositHealth
  readonly funding: Funding
  readonly walletExports: WalletExports
  /** The pages for people: `web/` draws them. */
  readonly pages: {
    fund(view: FundView): Promise<Page>
    /** The texts of the funding page that change while it is open. */
    fundTexts(status: FundStatus): { balance: string; deposits: string }
    noAgent(): Page
  }
  readonly callLog: CallLog
  readonly once: Once
  readonly plane: Pick<Plane, 'health' | 'redis' | 'kinds' | 'storage'> & { readonly bus: Bus }
  /** A few live prices for a welcome; null when no source answers. */
  prices(): Promise<Record<string, unknown> | null>
}
