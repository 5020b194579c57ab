import { asMicros, type Micros } from '../core/money.ts'

/** A payment network and its USDC. */
export interface PaymentNetwork {
  readonly name: string
  readonly caip2: string
  /** Null if transactions have no chain number. */
  readonly chainId: number | null
  /** EVM addresses in lower case, base58 on Solana. */
  readonly asset: string
  readonly decimals: number
  /** The token's EIP-712 domain; null if payments there are not signed for the token. */
  readonly domain: { readonly name: string; readonly version: string } | null
}

/**
 * Pinned values: with a wrong domain name every signature fails silently (EIP-712). Checked in
 * 2026-11 against Circle's list of USDC contracts, x402's default assets (domain), the Uniswap
 * default token list (BSC, Tempo) and mppx. BSC's domain only appears in offers; nothing is signed
 * for that token.
 */
export const PAYMENT_NETWORKS = {
  base: {
    name: 'base',
    caip2: 'eip155:8453',
    chainId: 8453,
    asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
    decimals: 6,
    domain: { name: 'USD Coin', version: '2' },
  },
  bsc: {
    name: 'bsc',
    caip2: 'eip155:56',
    chainId: 56,
    asset: '0x8ac76a51cc950d9822d68b83fe1ad97b32cd580d',
    decimals: 18,
    domain: { name: 'USD Coin', version: '1' },
  },
  tempo: {
    name: 'tempo',
    caip2: 'eip155:4217',
    chainId: 4217,
    asset: '0x20c000000000000000000000b9537d11c60e8b50',
    decimals: 6,
    domain: null,
  },
  solana: {
    name: 'solana',
    caip2: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
    chainId: null,
    asset: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
    decimals: 6,
    domain: null,
  },
} as const satisfies Record<string, PaymentNetwork>

const LEDGER_DECIMALS = 6

/** Converts an amount to atomic units of an asset; throws if it is not a whole number of them. */
export const toAtomicUnits = (price: Micros, decimals: number): bigint =>
  shiftDecimals(price, decimals - LEDGER_DECIMALS)

/** Converts atomic units to the ledger's amount; throws if they are not whole micro-USDC. */
export const fromAtomicUnits = (amount: bigint, decimals: number): Micros =>
  asMicros(shiftDecimals(amount, LEDGER_DECIMALS - decimals))

function shiftDecimals(amount: bigint, places: number): bigint {
  const factor = 10n ** BigInt(Math.abs(places))
  if (places >= 0) return amount * factor
  if (amount % factor === 0n) return amount / factor
  throw new RangeError(`${amount} has more decimals than it may have`)
}
