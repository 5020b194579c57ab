import { DAY } from '../../core/clock.ts'
import type { TokenContractInfo } from '../chain-data/chain-data-port.ts'
import type { DexLiquidityPool } from './liquidity-pools-port.ts'

/** Risk indicators of tokens. */

export interface TokenRisk {
  readonly code: string
  readonly severity: 'low' | 'medium' | 'high'
  readonly detail: string
}

const MIN_LIQUIDITY_USD = 50_000
const MIN_TOKEN_AGE_DAYS = 7
const MAX_PRICE_SPREAD = 0.05
/** The price of a smaller pool is unreliable. */
const MIN_PRICED_POOL_USD = 1_000
const BURN_ADDRESS = /^0x0{40}$|^0x0{36}dead$/i

/** Returns the observed risks of a token; unknown facts add none. */
export function assessTokenRisks(
  pools: readonly DexLiquidityPool[],
  facts: TokenContractInfo | null,
  now: number,
): TokenRisk[] {
  return [...poolRisks(pools, now), ...(facts === null ? [] : contractRisks(facts))]
}

function poolRisks(pools: readonly DexLiquidityPool[], now: number): TokenRisk[] {
  if (pools.length === 0) return []
  const liquidity = totalLiquidityUsd(pools)
  const born = pools.flatMap(({ createdAt }) => createdAt ?? [])
  const days = born.length === 0 ? null : (now - Math.min(...born)) / DAY
  const [buys, sells] = [
    sumLiquidityPoolField(pools, 'buys24h'),
    sumLiquidityPoolField(pools, 'sells24h'),
  ]
  const spread = priceSpread(pools)
  return [
    ...riskWhen(
      liquidity !== null && liquidity < MIN_LIQUIDITY_USD,
      'LOW_LIQUIDITY',
      'high',
      () => `${Math.round(liquidity ?? 0)} USD in all pools`,
    ),
    ...riskWhen(
      days !== null && days < MIN_TOKEN_AGE_DAYS,
      'NEW_TOKEN',
      'high',
      () => `first pool ${(days ?? 0).toFixed(1)} days ago`,
    ),
    ...riskWhen(
      sells === 0 && (buys ?? 0) > 0,
      'NO_SELLS',
      'high',
      () => `${buys} buys and no sell in 24 hours`,
    ),
    ...riskWhen(pools.length === 1, 'SINGLE_POOL', 'medium', () => 'traded in one pool only'),
    ...riskWhen(
      spread !== null && spread > MAX_PRICE_SPREAD,
      'PRICE_DIVERGENCE',
      'medium',
      () => `pools differ by ${((spread ?? 0) * 100).toFixed(1)} %`,
    ),
  ]
}

function contractRisks({ hasCode, owner, implementation }: TokenContractInfo): TokenRisk[] {
  return [
    ...riskWhen(!hasCode, 'NO_CODE', 'high', () => 'no contract at this address'),
    ...riskWhen(
      owner !== null && !BURN_ADDRESS.test(owner),
      'OWNER_KEPT',
      'medium',
      () => `owned by ${owner}`,
    ),
    ...riskWhen(
      implementation !== null,
      'UPGRADEABLE',
      'low',
      () => `a proxy of ${implementation}`,
    ),
  ]
}

const riskWhen = (
  holds: boolean,
  code: string,
  severity: TokenRisk['severity'],
  detail: () => string,
): TokenRisk[] => (holds ? [{ code, severity, detail: detail() }] : [])

export const totalLiquidityUsd = (pools: readonly DexLiquidityPool[]): number | null =>
  sumLiquidityPoolField(pools, 'liquidityUsd')

/** Returns null when no pool has the field. */
export function sumLiquidityPoolField(
  pools: readonly DexLiquidityPool[],
  field: 'liquidityUsd' | 'volume24hUsd' | 'buys24h' | 'sells24h',
): number | null {
  const known = pools.flatMap((pool) => pool[field] ?? [])
  return known.length === 0 ? null : known.reduce((total, one) => total + one, 0)
}

function priceSpread(pools: readonly DexLiquidityPool[]): number | null {
  const prices = pools
    .filter(({ liquidityUsd }) => (liquidityUsd ?? 0) >= MIN_PRICED_POOL_USD)
    .flatMap(({ priceUsd }) => priceUsd ?? [])
  return prices.length < 2
    ? null
    : (Math.max(...prices) - Math.min(...prices)) / Math.min(...prices)
}
