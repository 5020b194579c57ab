import { toUsdc, type Micros } from '../../core/money.ts'
import {
  CREW_PRICES,
  FIRST_DEPOSIT_BONUS_BPS,
  MEMORY_PACK_BUNDLE_PRICE,
  MEMORY_PACK_PRICES,
  MIN_BOUNTY_REWARD,
  MIN_DEPOSIT,
  OWNER_BONUS_LIMIT,
  PLATFORM_FEE_BPS,
  REFERRAL_REWARD,
  REFERRAL_SHARE_BPS,
  SCHEDULE_RUN_FEE,
  SIGNAL_PRICE,
  STRATEGY_FORK_PRICE,
  STRATEGY_FORK_ROYALTY,
  STRATEGY_PUBLISH_PRICE,
  TIP_FEE_BPS,
  VAULT_COMPRESS_PRICE,
  VAULT_DREAM_PRICE,
  VAULT_PROMOTE_PRICE,
  VAULT_SHARE_PRICE,
  VAULT_WRITE_PRICE,
} from '../../domain/pricing.ts'
import type { CatalogueEntry } from '../../tools/tool-ports.ts'
import type { HttpConfig } from '../http-config-and-service-types.ts'

/** The document of every price of the station. */

const BPS = 10_000

/** Describes prices of tools, other operations and memory packs, fees and bonuses. */
export function describePrices(
  { publicUrl, starterCredits }: Pick<HttpConfig, 'publicUrl' | 'starterCredits'>,
  tools: readonly CatalogueEntry[],
) {
  return {
    schema_version: '1.0',
    currency: 'USDC',
    tools: tools.map(({ slug, category, access, price_usdc, free_tier }) => ({
      slug,
      category,
      access,
      price_usdc,
      free_tier,
      docs_url: `${publicUrl}/api/tools/${slug}`,
    })),
    operations: toUsdcPrices({
      vault_write: VAULT_WRITE_PRICE,
      vault_compress: VAULT_COMPRESS_PRICE,
      vault_dream: VAULT_DREAM_PRICE,
      vault_share: VAULT_SHARE_PRICE,
      vault_promote: VAULT_PROMOTE_PRICE,
      strategy_publish: STRATEGY_PUBLISH_PRICE,
      strategy_fork: STRATEGY_FORK_PRICE,
      signal_publish: SIGNAL_PRICE,
      schedule_run: SCHEDULE_RUN_FEE,
    }),
    crews: toUsdcPrices(CREW_PRICES),
    memory_packs: toUsdcPrices({
      ...MEMORY_PACK_PRICES,
      'full-stack-bundle': MEMORY_PACK_BUNDLE_PRICE,
    }),
    fees: {
      platform_rate: toRate(PLATFORM_FEE_BPS),
      tip_rate: toRate(TIP_FEE_BPS),
      send_rate: 0,
      strategy_author_usdc: toUsdc(STRATEGY_FORK_ROYALTY),
    },
    credits: {
      starter_usdc: toUsdc(starterCredits),
      first_deposit_bonus_rate: toRate(FIRST_DEPOSIT_BONUS_BPS),
      first_deposit_bonus_max_usdc: toUsdc(OWNER_BONUS_LIMIT),
      minimum_deposit_usdc: toUsdc(MIN_DEPOSIT),
      minimum_bounty_usdc: toUsdc(MIN_BOUNTY_REWARD),
      referral_reward_usdc: toUsdc(REFERRAL_REWARD),
      referral_share_rate: toRate(REFERRAL_SHARE_BPS),
    },
  }
}

const toRate = (bps: bigint): number => Number(bps) / BPS

const toUsdcPrices = (prices: Readonly<Record<string, Micros>>): Record<string, number> =>
  Object.fromEntries(Object.entries(prices).map(([name, price]) => [name, toUsdc(price)]))
