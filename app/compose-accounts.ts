import type { Actors } from '../actors/command.ts'
import type { Clock } from '../core/clock.ts'
import type { SealingKeys } from '../core/crypto.ts'
import { accounts } from '../payments/accounts.ts'
import { bounties } from '../payments/bounties.ts'
import type { Chains } from '../payments/chains.ts'
import { fleets } from '../payments/fleets.ts'
import { newcomerCount } from '../payments/newcomers.ts'
import { bountyStore } from '../persistence/bounties.ts'
import { fleetStore } from '../persistence/fleets.ts'
import type { Sql } from '../persistence/plane.ts'
import type { ReferralStore } from '../persistence/referrals.ts'
import type { StationKeys } from '../persistence/station-keys.ts'
import type { Config } from './config.ts'

export interface AccountsParts {
  readonly config: Pick<
    Config,
    'starterCredits' | 'chain' | 'onboardPerHourPerIp' | 'bulkOnboardMax' | 'promoTransferable'
  >
  readonly clock: Clock
  readonly sql: Sql
  readonly own: Pick<StationKeys, 'pepper'>
  readonly actors: Actors
  readonly chains: Chains
  readonly referrals: Pick<ReferralStore, 'ownerOf'>
  /** Seals the keys of new wallets. */
  readonly walletKey: SealingKeys
}

/** How agents come into being, share their credits and offer rewards to each other. */
export function composeAccounts(parts: AccountsParts) {
  const { config, clock, sql, own, actors, chains, referrals, walletKey } = parts
  return {
    accounts: accounts({
      actors,
      clock,
      starter: config.starterCredits,
      pepper: own.pepper,
      walletKey,
      referrals,
    }),
    newcomers: newcomerCount({
      actors,
      clock,
      perHour: config.onboardPerHourPerIp,
      batch: config.bulkOnboardMax,
    }),
    fleets: fleets({
      actors,
      clock,
      store: fleetStore(sql),
      walletKey,
      base: chains.settings.base,
      treasury: config.chain.treasury,
    }),
    bounties: bounties({
      actors,
      store: bountyStore(sql),
      promoTransferable: config.promoTransferable,
    }),
  }
}
