import type { ReadableChainName, EvmHex } from './chain-data-port.ts'

/** The bundled list of widely held tokens. */

export interface WidelyHeldToken {
  readonly chain: ReadableChainName
  /** The symbol in `price_feed`. */
  readonly symbol: string
  readonly address: EvmHex
  readonly decimals: number
}

/** Date of the last comparison with the sources. */
export const WIDELY_HELD_TOKENS_AS_OF = '2026-11-22'

/**
 * Chain, symbol, decimals, address: the canonical contract of a symbol on a chain. USDC and EURC are Circle's
 * own, never bridged. Many others on rollups and Polygon are bridged, and USDT on Arbitrum and Polygon has
 * become USDT0. Checked in 2026-11 against Circle's list of USDC contracts, the Uniswap default token list,
 * the Aave address book and (BRETT) the Hyperlane registry.
 */
const TABLE = `
ethereum USDC 6 0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48
ethereum USDT 6 0xdAC17F958D2ee523a2206206994597C13D831ec7
ethereum DAI 18 0x6B175474E89094C44Da98b954EedeAC495271d0F
ethereum WETH 18 0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2
ethereum WBTC 8 0x2260FAC5E5542a773Aa44fBCfeDf7C193bc2C599
ethereum STETH 18 0xae7ab96520DE3A18E5e111B5EaAb095312D7fE84
ethereum LINK 18 0x514910771AF9Ca656af840dff83E8264EcF986CA
ethereum UNI 18 0x1f9840a85d5aF5bf1D1762F925BDADdC4201F984
ethereum AAVE 18 0x7Fc66500c84A76Ad7e9c93437bFc5Ac33E2DDaE9
ethereum PEPE 18 0x6982508145454Ce325dDbE47a25d4ec3d2311933
ethereum SHIB 18 0x95aD61b0a150d79219dCF64E1E6Cc01f0B64C4cE
base USDC 6 0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913
base WETH 18 0x4200000000000000000000000000000000000006
base CBBTC 8 0xcbB7C0000aB88B473b1f5aFd9ef808440eed33Bf
base CBETH 18 0x2Ae3F1Ec7F1F5012CFEab0185bfc7aa3cf0DEc22
base DAI 18 0x50c5725949A6F0c72E6C4a641F24049A917DB0Cb
base EURC 6 0x60a3E35Cc302bFA44Cb288Bc5a4F316Fdb1adb42
base AERO 18 0x940181a94A35A4569E4529A3CDfB74e38FD98631
base DEGEN 18 0x4ed4E862860beD51a9570b96d89aF5E1B0Efefed
base BRETT 18 0x532f27101965dd16442E59d40670FaF5eBB142E4
base VIRTUAL 18 0x0b3e328455c4059EEb9e3f84b5543F74E24e7E1b
arbitrum USDC 6 0xaf88d065e77c8cC2239327C5EDb3A432268e5831
arbitrum USDT 6 0xFd086bC7CD5C481DCC9C85ebE478A1C0b69FCbb9
arbitrum WETH 18 0x82aF49447D8a07e3bd95BD0d56f35241523fBab1
arbitrum ARB 18 0x912CE59144191C1204E64559FE8253a0e49E6548
arbitrum WBTC 8 0x2f2a2543B76A4166549F7aaB2e75Bef0aefC5B0f
arbitrum DAI 18 0xDA10009cBd5D07dd0CeCc66161FC93D7c9000da1
optimism USDC 6 0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85
optimism USDT 6 0x94b008aA00579c1307B0EF2c499aD98a8ce58e58
optimism WETH 18 0x4200000000000000000000000000000000000006
optimism OP 18 0x4200000000000000000000000000000000000042
optimism DAI 18 0xDA10009cBd5D07dd0CeCc66161FC93D7c9000da1
optimism WBTC 8 0x68f180fcCe6836688e9084f035309E29Bf0A2095
polygon USDC 6 0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359
polygon USDT 6 0xc2132D05D31c914a87C6611C10748AEb04B58e8F
polygon WETH 18 0x7ceB23fD6bC0adD59E62ac25578270cFf1b9f619
polygon DAI 18 0x8f3Cf7ad23Cd3CaDbD9735AFf958023239c6A063
polygon WBTC 8 0x1BFD67037B42Cf73acF2047067bd4F2C47D9BfD6
`

/** Widely held tokens with their contract on each chain. */
export const WIDELY_HELD_TOKENS: readonly WidelyHeldToken[] = TABLE.trim()
  .split('\n')
  .map((line) => {
    const [chain, symbol = '', decimals, address] = line.split(' ')
    return {
      chain: chain as ReadableChainName,
      symbol,
      address: address as EvmHex,
      decimals: Number(decimals),
    }
  })

export const widelyHeldTokensOnChain = (chain: ReadableChainName): readonly WidelyHeldToken[] =>
  WIDELY_HELD_TOKENS.filter((token) => token.chain === chain)
