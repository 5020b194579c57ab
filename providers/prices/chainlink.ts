import { MINUTE, type Clock } from '../../core/clock.ts'
import type { ChainReader, EvmHex } from '../chain-data/chain-data-port.ts'
import type { PriceObservation, PriceSource } from './asset-price-sources.ts'

/** Prices from Chainlink oracles on Ethereum. */

/**
 * USD feeds on Ethereum, and the age at which a round is stale. Checked in 2026-11: addresses against the
 * Aave address book, heartbeats against copies of Chainlink's directory.
 */
const USD_FEEDS: Readonly<Record<string, { address: EvmHex; heartbeatMinutes: number }>> = {
  BTC: { address: '0xF4030086522a5bEEa4988F8cA5B36dbC97BeE88c', heartbeatMinutes: 60 },
  ETH: { address: '0x5f4eC3Df9cbd43714FE2740f5E3616155c5b8419', heartbeatMinutes: 60 },
  LINK: { address: '0x2c1d072e956AFFC0D435Cb7AC38EF18d24d9127c', heartbeatMinutes: 60 },
  USDC: { address: '0x8fFfFfd4AfB6115b954Bd326cbe7B4BA576818f6', heartbeatMinutes: 1_380 },
  USDT: { address: '0x3E7d1eAB13ad0104d2750B8863b489D65364e32D', heartbeatMinutes: 1_440 },
  DAI: { address: '0xAed0c38402a5d19df6E4c03F4E2DceD6e29c1ee9', heartbeatMinutes: 60 },
}
export const CHAINLINK_FEED_ADDRESSES: readonly EvmHex[] = Object.values(USD_FEEDS).map(
  ({ address }) => address,
)

/** A round may arrive a little late. */
const ROUND_GRACE_MINUTES = 10
const MAX_FEED_DECIMALS = 18

/** Reads prices from on-chain oracles, which need no market to answer. */
export function createChainlinkSource(
  chain: Pick<ChainReader, 'round' | 'about'>,
  clock: Pick<Clock, 'now'>,
): PriceSource {
  const name = 'chainlink'
  return {
    name,
    async fetchPrices(symbols) {
      const known = symbols.flatMap((symbol) => {
        const feed = USD_FEEDS[symbol]
        return feed === undefined ? [] : [{ symbol, ...feed }]
      })
      const mode = chain.about('ethereum').network === 'mainnet' ? 'live' : 'fixture'
      const found = new Map<string, PriceObservation>()
      await Promise.all(
        known.map(async ({ symbol, address, heartbeatMinutes }) => {
          const round = await chain.round('ethereum', address)
          if (round === null) return
          const { answer, decimals, updatedAt } = round
          const age = clock.now() - updatedAt
          if (answer <= 0n || decimals > MAX_FEED_DECIMALS) return
          if (age > (heartbeatMinutes + ROUND_GRACE_MINUTES) * MINUTE) return
          const usd = Number(answer) / 10 ** decimals
          found.set(symbol, { usd, usd24hChange: null, usdMarketCap: null, mode })
        }),
      )
      return found
    },
  }
}
