/** Network names of x402 and the decimals of their USDC. */

/**
 * Names of x402 version 1 and their CAIP-2 identifiers, which version 2 uses. Checked in 2026-11
 * against the x402 packages and viem/chains.
 */
const CAIP2: Readonly<Record<string, string>> = {
  base: 'eip155:8453',
  'base-sepolia': 'eip155:84532',
  ethereum: 'eip155:1',
  optimism: 'eip155:10',
  arbitrum: 'eip155:42161',
  polygon: 'eip155:137',
  'polygon-amoy': 'eip155:80002',
  bsc: 'eip155:56',
  avalanche: 'eip155:43114',
  'avalanche-fuji': 'eip155:43113',
  sei: 'eip155:1329',
  iotex: 'eip155:4689',
  solana: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
  'solana-devnet': 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1',
}

const CAIP2_FORM = /^[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}$/

/** The CAIP-2 identifier of a network by either spelling; null if unknown. */
export function findCaip2Id(name: string): string | null {
  if (CAIP2_FORM.test(name)) return name
  return Object.hasOwn(CAIP2, name) ? (CAIP2[name] ?? null) : null
}

/** Whether a CAIP-2 network is an EVM chain, whose addresses ignore case. */
export const isEvmNetwork = (caip2: string): boolean => caip2.startsWith('eip155:')

/** The version 1 name of a network; null if it has none. */
export function findV1NetworkName(caip2: string): string | null {
  return Object.keys(CAIP2).find((name) => CAIP2[name] === caip2) ?? null
}

/**
 * Checked in 2026-11 against Circle's list of USDC contracts, for BSC the Uniswap default token list,
 * and for Tempo mppx.
 */
const USDC_DECIMALS: Readonly<Record<string, number>> = {
  'eip155:8453/0x833589fcd6edb6e08f4c7c32d4f71b54bda02913': 6,
  'eip155:84532/0x036cbd53842c5426634e7929541ec2318f3dcf7e': 6,
  'eip155:1/0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48': 6,
  'eip155:10/0x0b2c639c533813f4aa9d7837caf62653d097ff85': 6,
  'eip155:42161/0xaf88d065e77c8cc2239327c5edb3a432268e5831': 6,
  'eip155:137/0x3c499c542cef5e3811e1192ce70d8cc03d5c3359': 6,
  'eip155:43114/0xb97ef9ef8734c71904d8002f8b6bc66dd9c48a6e': 6,
  'eip155:56/0x8ac76a51cc950d9822d68b83fe1ad97b32cd580d': 18,
  'eip155:4217/0x20c000000000000000000000b9537d11c60e8b50': 6,
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v': 6,
}

/** The USDC contract that the short payment header means. */
export const BASE_USDC_ADDRESS = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
export const BASE_CAIP2_ID = 'eip155:8453'

/** The decimals of USDC on a network; null for any other asset, whose value is unknown. */
function usdcDecimals(network: string, asset: string): number | null {
  const address = isEvmNetwork(network) ? asset.toLowerCase() : asset
  return USDC_DECIMALS[`${network}/${address}`] ?? null
}

/** An atomic amount as USDC, for display: settlement never uses doubles. */
export function atomicToUsdc(network: string | null, asset: string | null, atomic: string | null) {
  if (network === null || asset === null || atomic === null || !/^\d{1,78}$/.test(atomic))
    return null
  const decimals = usdcDecimals(network, asset)
  if (decimals === null) return null
  const digits = atomic.padStart(decimals + 1, '0')
  return Number(`${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`)
}
