import type { ActorSystem } from '../../actors/aggregate-command-types.ts'
import type { Clock } from '../../core/clock.ts'
import type { EncryptionKeys } from '../../core/key-derivation-and-encryption.ts'
import { createAgentOnboarding } from '../../payments/agent-onboarding.ts'
import { createMemorySellerReputationLookup } from '../../memory/memory-marketplace/memory-listings-with-seller-reputation.ts'
import { createBountyService } from '../../payments/bounty-service.ts'
import { createMemoryMarketplaceService } from '../../payments/memory-marketplace-service.ts'
import type { PaymentChains } from '../../payments/payment-chains.ts'
import { createFleetService } from '../../payments/fleets/fleet-service.ts'
import { createOnboardingRateLimit } from '../../payments/limits/onboarding-rate-limit.ts'
import type { DailyByteCounter } from '../../persistence/daily-stored-byte-quotas.ts'
import { createBountyStore } from '../../persistence/payments/bounty-store.ts'
import { createFleetStore } from '../../persistence/fleets/fleet-store.ts'
import { createHiveEvidenceReader } from '../../persistence/hive/hive-entries-about-topic-reader.ts'
import { createMemoryMarketplaceStore } from '../../persistence/memory-marketplace/memory-marketplace-store.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import type { ReferralStore } from '../../persistence/agents/referral-store.ts'
import type { StationKeys } from '../../persistence/encrypted-station-key-store.ts'
import type { Config } from '../config.ts'

/** Composes onboarding, fleets, bounties and the marketplace. */

export interface ComposeOnboardingFleetsAndBountiesDeps {
  readonly config: Pick<
    Config,
    'starterCredits' | 'chain' | 'onboardPerHourPerIp' | 'bulkOnboardMax' | 'promoTransferable'
  >
  readonly clock: Clock
  readonly sql: Sql
  readonly own: Pick<StationKeys, 'pepper'>
  readonly actors: ActorSystem
  readonly chains: PaymentChains
  readonly referrals: Pick<ReferralStore, 'ownerOf' | 'creatorOfBundle'>
  /** Encrypts the keys of new wallets. */
  readonly walletKey: EncryptionKeys
  /** What agents keep a day. */
  readonly keptBytes: Pick<DailyByteCounter, 'take' | 'giveBack'>
}

/** Creates the services for agents: onboarding, fleets, bounties, the marketplace. */
export function composeOnboardingFleetsAndBounties(parts: ComposeOnboardingFleetsAndBountiesDeps) {
  const { config, clock, sql, own, actors, chains, referrals, walletKey, keptBytes } = parts
  return {
    accounts: createAgentOnboarding({
      actors,
      clock,
      starter: config.starterCredits,
      pepper: own.pepper,
      walletKey,
      referrals,
    }),
    newcomers: createOnboardingRateLimit({
      actors,
      clock,
      perHour: config.onboardPerHourPerIp,
      batch: config.bulkOnboardMax,
    }),
    fleets: createFleetService({
      actors,
      clock,
      store: createFleetStore(sql),
      walletKey,
      base: chains.settings.base,
      treasury: config.chain.treasury,
    }),
    bounties: createBountyService({
      actors,
      store: createBountyStore(sql),
      promoTransferable: config.promoTransferable,
    }),
    marketplace: {
      ...createMemoryMarketplaceService({
        actors,
        clock,
        store: createMemoryMarketplaceStore(sql),
        promoTransferable: config.promoTransferable,
        keptBytes,
      }),
      withReputations: createMemorySellerReputationLookup(createHiveEvidenceReader(sql), clock),
    },
  }
}
