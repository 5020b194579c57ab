import { MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import {
  READABLE_CHAIN_NAMES,
  type ChainReader,
  type ReadableChainName,
} from '../chain-data/chain-data-port.ts'
import type { CoinPriceQuote, CoinPriceService } from './asset-price-service.ts'

/** Prices of the main assets and the gas of the chains, read together and shared by all callers. */

const MARKET_SYMBOLS = ['BTC', 'ETH', 'SOL', 'BNB', 'POL', 'USDC'] as const
const REFRESH_MS = 30 * SECOND
const READ_TIMEOUT_MS = 3 * SECOND
/** Older figures are left out: they would pass for current ones. */
const MAX_AGE_MS = 10 * MINUTE
/** Gas of a plain transfer of the native token. */
const TRANSFER_GAS = 21_000

export interface CoinMarketPrice extends CoinPriceQuote {
  readonly symbol: string
}

export interface ChainGasPrice {
  readonly chain: ReadableChainName
  /** Base fee of the latest block per unit of gas, in wei. */
  readonly baseFeeWei: bigint
  readonly block: bigint
  /** When it was read, in milliseconds since the epoch. */
  readonly at: number
  /** Price of a plain transfer; null without a price of the native token. Fees for Ethereum's data are extra. */
  readonly transferUsd: number | null
}

export interface CryptoMarketSnapshot {
  readonly prices: readonly CoinMarketPrice[]
  readonly gas: readonly ChainGasPrice[]
  /** Symbols and chains that no source answered for. */
  readonly missing: readonly string[]
}

export interface CryptoMarketOverviewReaderDeps {
  readonly prices: Pick<CoinPriceService, 'quote'>
  readonly chain: Pick<ChainReader, 'about' | 'baseFee'>
  readonly clock: Pick<Clock, 'now' | 'mono'>
}

/** Returns the market at most 30 seconds old; throws `price_unavailable` when nothing is known. */
export type CryptoMarketOverviewReader = () => Promise<CryptoMarketSnapshot>

export function createCryptoMarketOverviewReader({
  prices,
  chain,
  clock,
}: CryptoMarketOverviewReaderDeps): CryptoMarketOverviewReader {
  const known = new Map<ReadableChainName, Omit<ChainGasPrice, 'transferUsd'>>()
  let reading: Promise<CryptoMarketSnapshot> | null = null
  let staleAt = -Infinity

  async function readGas(name: ReadableChainName): Promise<void> {
    const fee = await withTimeout(chain.baseFee(name))
    if (fee !== null) known.set(name, { chain: name, ...fee, at: clock.now() })
  }

  async function read(): Promise<CryptoMarketSnapshot> {
    const [quotes] = await Promise.all([
      prices.quote(MARKET_SYMBOLS, AbortSignal.timeout(READ_TIMEOUT_MS)).catch(() => null),
      ...READABLE_CHAIN_NAMES.map((name) => readGas(name).catch(() => undefined)),
    ])
    const found = toMarketPrices(quotes)
    const gas = READABLE_CHAIN_NAMES.flatMap((name) => {
      const one = known.get(name)
      if (one === undefined || clock.now() - one.at > MAX_AGE_MS) return []
      const usd = found.find(({ symbol }) => symbol === chain.about(name).native)?.usd ?? null
      return [{ ...one, transferUsd: usd === null ? null : transferCost(one.baseFeeWei, usd) }]
    })
    if (found.length === 0 && gas.length === 0) throw new ServiceError('price_unavailable')
    const missing = [
      ...MARKET_SYMBOLS.filter((name) => !found.some(({ symbol }) => symbol === name)),
      ...READABLE_CHAIN_NAMES.filter((name) => !gas.some((one) => one.chain === name)),
    ]
    return { prices: found, gas, missing }
  }

  return () => {
    if (reading !== null && clock.mono() < staleAt) return reading
    staleAt = clock.mono() + REFRESH_MS
    const mine = read()
    reading = mine
    mine.catch(() => {
      if (reading === mine) reading = null
    })
    return mine
  }
}

const toMarketPrices = (
  quotes: ReadonlyMap<string, CoinPriceQuote | null> | null,
): CoinMarketPrice[] =>
  [...(quotes ?? [])].flatMap(([symbol, quote]) => (quote === null ? [] : [{ symbol, ...quote }]))

const transferCost = (baseFeeWei: bigint, usd: number): number =>
  Number(((Number(baseFeeWei) * TRANSFER_GAS * usd) / 1e18).toPrecision(4))

/** Resolves to null when the work takes too long; the work itself goes on and is ignored. */
async function withTimeout<T>(work: Promise<T>): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), READ_TIMEOUT_MS)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}
