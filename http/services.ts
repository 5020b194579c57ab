import type { Actors } from '../actors/command.ts'
import type { Calls } from '../calls/calls.ts'
import type { Clock } from '../core/clock.ts'
import type { FundView, Page } from '../core/funding.ts'
import type { Micros } from '../core/money.ts'
import type { DepositHealth } from '../jobs/deposit-scan.ts'
import type { Accounts } from '../payments/accounts.ts'
import type { Fleets } from '../payments/fleets.ts'
import type { Funding } from '../payments/funding.ts'
import type { Paying } from '../payments/paying.ts'
import type { WalletExports } from '../payments/wallet-export.ts'
import type { Bus } from '../persistence/bus.ts'
import type { CallLog } from '../persistence/call-log.ts'
import type { ClipboardStore } from '../persistence/clipboard.ts'
import type { DepositStore } from '../persistence/deposits.ts'
import type { DropStore } from '../persistence/drops.ts'
import type { KeyringStore } from '../persistence/keyring.ts'
import type { KeyStore } from '../persistence/keys.ts'
import type { Once } from '../persistence/once.ts'
import type { OutboxStore } from '../persistence/outbox.ts'
import type { Plane } from '../persistence/plane.ts'
import type { ProfileStore } from '../persistence/profiles.ts'
import type { ReferralStore } from '../persistence/referrals.ts'
import type { SettlementStore } from '../persistence/settlements.ts'
import type { TransferStore } from '../persistence/transfers.ts'
import type { Catalogue } from '../tools/catalogue.ts'

/** What the face of the service needs to know of its settings. */
export interface HttpConfig {
  readonly production: boolean
  /** Where callers reach the service, without a slash at its end; never taken from a Host header. */
  readonly publicUrl: string
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
  readonly catalogue: Catalogue
  readonly accounts: Accounts
  readonly paying: Paying
  /** For each chain, whether payments on it are on, or why not. */
  readonly rails: () => Record<string, string>
  readonly settlements: Pick<SettlementStore, 'counts'>
  readonly fleets: Fleets
  readonly drops: DropStore
  readonly referrals: ReferralStore
  readonly keys: KeyStore
  readonly profiles: ProfileStore
  readonly keyring: KeyringStore
  readonly clipboard: ClipboardStore
  readonly events: OutboxStore
  readonly ledger: TransferStore
  readonly deposits: DepositStore
  readonly depositHealth: () => DepositHealth
  readonly funding: Funding
  readonly walletExports: WalletExports
  /** The pages for people: `web/` draws them. */
  readonly pages: { fund(view: FundView): Promise<Page>; noAgent(): Page }
  readonly callLog: CallLog
  readonly once: Once
  readonly plane: Pick<Plane, 'health' | 'redis' | 'line'> & { readonly bus: Bus }
  /** A few live prices for a welcome; null when no source answers. */
  prices(): Promise<Record<string, unknown> | null>
}
