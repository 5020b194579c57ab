import { DAY } from '../../core/clock.ts'
import type { TokenFacts } from '../chain/port.ts'
import type { Pool } from './port.ts'

export interface Risk {
  readonly code: string
  readonly severity: 'low' | 'medium' | 'high'
  readonly detail: string
}

const THIN_USD = 50_000
const YOUNG_DAYS = 7
const APART = 0.05
/** A pool below this says nothing about the price. */
const COUNTED_USD = 1_000
const NOBODY = /^0x0{40}$|^0x0{36}dead$/i

/** What speaks against a token; only what was seen, nothing for what is not known. */
export function risksOf(pools: readonly Pool[], facts: TokenFacts | null, now: number): Risk[] {
  return [...poolRisks(pools, now), ...(facts === null ? [] : contractRisks(facts))]
}

function poolRisks(pools: readonly Pool[], now: number): Risk[] {
  if (pools.length === 0) return []
  const liquidity = liquidityOf(pools)
  const born = pools.flatMap(({ createdAt }) => createdAt ?? [])
  const days = born.length === 0 ? null : (now - Math.min(...born)) / DAY
  const [buys, sells] = [sum(pools, 'buys24h'), sum(pools, 'sells24h')]
  const spread = spreadOf(pools)
  return [
    ...when(
      liquidity !== null && liquidity < THIN_USD,
      'LOW_LIQUIDITY',
      'high',
      () => `${Math.round(liquidity ?? 0)} USD in all pools`,
    ),
    ...when(
      days !== null && days < YOUNG_DAYS,
      'NEW_TOKEN',
      'high',
      () => `first pool ${(days ?? 0).toFixed(1)} days ago`,
    ),
    ...when(
      sells === 0 && (buys ?? 0) > 0,
      'NO_SELLS',
      'high',
      () => `${buys} buys and no sell in 24 hours`,
    ),
    ...when(pools.length === 1, 'SINGLE_POOL', 'medium', () => 'traded in one pool only'),
    ...when(
      spread !== null && spread > APART,
      'PRICE_DIVERGENCE',
      'medium',
      () => `pools differ by ${((spread ?? 0) * 100).toFixed(1)} %`,
    ),
  ]
}

function contractRisks({ hasCode, owner, implementation }: TokenFacts): Risk[] {
  return [
    ...when(!hasCode, 'NO_CODE', 'high', () => 'no contract at this address'),
    ...when(
      owner !== null && !NOBODY.test(owner),
      'OWNER_KEPT',
      'medium',
      () => `owned by ${owner}`,
    ),
    ...when(implementation !== null, 'UPGRADEABLE', 'low', () => `a proxy of ${implementation}`),
  ]
}

const when = (
  holds: boolean,
  code: string,
  severity: Risk['severity'],
  detail: () => string,
): Risk[] => (holds ? [{ code, severity, detail: detail() }] : [])

export const liquidityOf = (pools: readonly Pool[]): number | null => sum(pools, 'liquidityUsd')

/** Null when no pool says. */
export function sum(
  pools: readonly Pool[],
  field: 'liquidityUsd' | 'volume24hUsd' | 'buys24h' | 'sells24h',
): number | null {
  const known = pools.flatMap((pool) => pool[field] ?? [])
  return known.length === 0 ? null : known.reduce((total, one) => total + one, 0)
}

function spreadOf(pools: readonly Pool[]): number | null {
  const prices = pools
    .filter(({ liquidityUsd }) => (liquidityUsd ?? 0) >= COUNTED_USD)
    .flatMap(({ priceUsd }) => priceUsd ?? [])
  return prices.length < 2
    ? null
    : (Math.max(...prices) - Math.min(...prices)) / Math.min(...prices)
}
