import { fromUsdc } from '../core/money.ts'

/** What a credit transfer, a tip and a call cost beside a tool's own price. */
export const TIP_FEE_BPS = 500n
export const PLATFORM_FEE_BPS = 1_800n

/** Owner alerts: balances at or below these are the warning and the critical tier. */
export const WARNING_BALANCE_MICROS = fromUsdc(0.25)
export const CRITICAL_BALANCE_MICROS = fromUsdc(0.05)

export const MIN_CREDIT_TRANSFER = fromUsdc(0.01)
export const MAX_CREDIT_TRANSFER = fromUsdc(50)
export const MIN_TIP = fromUsdc(0.01)
/** No balance, budget or fuse limit of an agent may exceed this: far below where doubles end. */
export const MAX_BUDGET = fromUsdc(1_000_000)

/** What a wallet's first credited deposit adds as promotional credits (decision 30). */
export const FIRST_DEPOSIT_BONUS_BPS = 2_500n
/** Deposits below it accumulate. */
export const MIN_DEPOSIT = fromUsdc(1)

/** What a referrer earns when the referred agent first deposits, and of each of its paid calls. */
export const REFERRAL_REWARD = fromUsdc(0.21)
export const REFERRAL_SHARE_BPS = 100n

/** The smallest reward of a bounty. */
export const MIN_BOUNTY_REWARD = fromUsdc(0.05)

/** A radio drop. */
export const DROP_CREDIT_AMOUNT = fromUsdc(0.1)

/**
 * What may be at stake when a call runs before its payment settles (docs/decisions.md): one call, one
 * payer at first, one payer at most. The sum over all payers is a setting.
 */
export const MAX_OPTIMISTIC_CALL_PRICE = fromUsdc(0.1)
export const INITIAL_PAYER_CAP = fromUsdc(0.1)
export const MAX_PAYER_CAP = fromUsdc(2)

/** What the author of a hive entry earns when another agent reads it (decision 24). */
export const HIVE_READ_ROYALTY = fromUsdc(0.02)

/** Forking a strategy: its author's part, and what it costs in all. */
export const STRATEGY_FORK_ROYALTY = fromUsdc(0.02)
export const STRATEGY_FORK_PRICE = fromUsdc(0.03)
export const STRATEGY_PUBLISH_PRICE = fromUsdc(0.05)

/** The vault: a write after those that are free for life, and what is done with memories. */
export const VAULT_WRITE_PRICE = fromUsdc(0.01)
export const VAULT_COMPRESS_PRICE = fromUsdc(0.05)
export const VAULT_DREAM_PRICE = fromUsdc(0.05)
export const VAULT_SHARE_PRICE = fromUsdc(0.01)
export const VAULT_PROMOTE_PRICE = fromUsdc(0.1)

/** Memory packs, and the bundle of all of them. */
export const PACK_PRICES = {
  'iagent-core': fromUsdc(4.99),
  'alpha-stim': fromUsdc(9.99),
  'focus-stack': fromUsdc(4.99),
  'secret-sauce': fromUsdc(14.99),
} as const
export const PACK_BUNDLE_PRICE = fromUsdc(24.99)

/** Crews (decision 50). */
export const CREW_PRICES = {
  competitor: fromUsdc(0.25),
  newsletter: fromUsdc(0.15),
  cold_email: fromUsdc(0.2),
  custom: fromUsdc(0.25),
} as const

/** Publishing one signal. */
export const SIGNAL_PRICE = fromUsdc(0.001)

/** What a run of a schedule costs beside its tool, and may cost in all. */
export const SCHEDULE_RUN_FEE = fromUsdc(0.001)
export const MAX_RUN_BUDGET = fromUsdc(1)
