import { asMicros, fromUsdc, ZERO_MICROS, type Micros } from '../core/money.ts'

/** Prices, fees and money limits. */

/** Fees on tips and calls, in basis points. */
export const TIP_FEE_BPS = 500n
export const PLATFORM_FEE_BPS = 1_800n

/** Balances at or below these are in the warning and critical tier. */
export const WARNING_BALANCE_MICROS = fromUsdc(0.25)
export const CRITICAL_BALANCE_MICROS = fromUsdc(0.05)

export const MIN_CREDIT_TRANSFER = fromUsdc(0.01)
export const MAX_CREDIT_TRANSFER = fromUsdc(50)
export const MIN_TIP = fromUsdc(0.01)
/** Upper limit of an agent's balance, budget and limits: far below where doubles are inexact. */
export const MAX_CREDIT_AMOUNT = fromUsdc(1_000_000)

/** Promotional credits for the first credited deposit (decision 30). */
export const FIRST_DEPOSIT_BONUS_BPS = 2_500n
/** The bonus of an owner, and the sum of the bonuses of a day on this station (decisions 385 and 492). */
export const OWNER_BONUS_LIMIT = fromUsdc(25)
export const DAILY_BONUS_LIMIT = fromUsdc(250)
/**
 * What a bonus may be: the bound of an owner; 0 while the day has no room for one, so that a later deposit brings it;
 * null if the owner has had it.
 */
export type BonusLeft = Micros | null
/** The bonus of a deposit; journals of version 1.0.0 tell nothing of what was left. */
export function depositBonus(amount: Micros, left?: BonusLeft): Micros {
  if (left === null) return ZERO_MICROS
  const bonus = asMicros((amount * FIRST_DEPOSIT_BONUS_BPS) / 10_000n)
  return left !== undefined && left < bonus ? left : bonus
}
/** Smaller deposits accumulate. */
export const MIN_DEPOSIT = fromUsdc(1)

/** A referrer's reward for the first deposit, and its share of paid calls. */
export const REFERRAL_REWARD = fromUsdc(0.21)
export const REFERRAL_SHARE_BPS = 100n

export const MIN_BOUNTY_REWARD = fromUsdc(0.05)

/** The price of a listing of the marketplace. Its seller gets it without the platform fee. */
export const MIN_MEMORY_LISTING_PRICE = fromUsdc(0.1)
export const MAX_MEMORY_LISTING_PRICE = fromUsdc(100)
/** What a sale brings its seller, rounded down. */
export const memoryListingSellerShare = (price: Micros): Micros =>
  asMicros((price * (10_000n - PLATFORM_FEE_BPS)) / 10_000n)

/** Promotional credits of a radio drop slot. */
export const CREDIT_DROP_AMOUNT = fromUsdc(0.1)

/**
 * Limits on calls that run before settlement (docs/decisions.md): per call, initial per payer,
 * maximum per payer. A setting limits the sum over all payers.
 */
export const MAX_OPTIMISTIC_CALL_PRICE = fromUsdc(0.1)
export const INITIAL_OPTIMISTIC_PAYER_CAP = fromUsdc(0.1)
export const MAX_OPTIMISTIC_PAYER_CAP = fromUsdc(2)

/** Paid to the author when another agent reads a Hive entry (decision 24). */
export const HIVE_READ_ROYALTY = fromUsdc(0.02)

/** Forking a strategy: the author's share and the total price. */
export const STRATEGY_FORK_ROYALTY = fromUsdc(0.02)
export const STRATEGY_FORK_PRICE = fromUsdc(0.03)
export const STRATEGY_PUBLISH_PRICE = fromUsdc(0.05)

/** The vault: writes after the free ones, and operations on memories. */
export const VAULT_WRITE_PRICE = fromUsdc(0.01)
export const VAULT_COMPRESS_PRICE = fromUsdc(0.05)
export const VAULT_DREAM_PRICE = fromUsdc(0.05)
export const VAULT_SHARE_PRICE = fromUsdc(0.01)
export const VAULT_PROMOTE_PRICE = fromUsdc(0.1)

/** Memory packs and their bundle. */
export const MEMORY_PACK_PRICES = {
  'iagent-core': fromUsdc(4.99),
  'alpha-stim': fromUsdc(9.99),
  'focus-stack': fromUsdc(4.99),
  'secret-sauce': fromUsdc(14.99),
} as const
export const MEMORY_PACK_BUNDLE_PRICE = fromUsdc(24.99)

/** Crews (decision 50). */
export const CREW_PRICES = {
  competitor: fromUsdc(0.25),
  newsletter: fromUsdc(0.15),
  cold_email: fromUsdc(0.2),
  custom: fromUsdc(0.25),
} as const

/** One signal. */
export const SIGNAL_PRICE = fromUsdc(0.001)

/** A schedule's fee per run, and the maximum budget of a run. */
export const SCHEDULE_RUN_FEE = fromUsdc(0.001)
export const MAX_SCHEDULE_RUN_BUDGET = fromUsdc(1)

/** A call of a tool that an agent sells. */
export const MIN_COMMUNITY_TOOL_PRICE = fromUsdc(0.001)
export const MAX_COMMUNITY_TOOL_PRICE = fromUsdc(100)
