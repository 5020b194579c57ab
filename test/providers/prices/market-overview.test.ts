import t from 'tap'
import { createDatabaseAdjustedClock, MINUTE, SECOND } from '../../../core/clock.ts'
import { ServiceError } from '../../../core/errors.ts'
import { createCryptoMarketOverviewReader } from '../../../providers/prices/market-overview.ts'

const QUOTE = {
  usd: 3_000,
  usd24hChange: 1.5,
  usdMarketCap: null,
  source: 'test',
  mode: 'live',
  at: 0,
  stale: false,
} as const

/** A market whose sources can be silenced, with a clock that only moves when told. */
function createTestMarket() {
  const state = { prices: true, chains: true, later: 0, reads: 0 }
  const clock = createDatabaseAdjustedClock({ wall: () => state.later, mono: () => state.later })
  const market = createCryptoMarketOverviewReader({
    clock,
    prices: {
      async quote(symbols) {
        state.reads += 1
        if (!state.prices) throw new ServiceError('price_unavailable')
        return new Map(symbols.map((one) => [one, one === 'SOL' ? null : QUOTE] as const))
      },
    },
    chain: {
      about: () => ({ chainId: 1, network: 'mainnet', native: 'ETH', explorer: '' }),
      async baseFee(name) {
        if (!state.chains || name === 'polygon') throw new ServiceError('upstream_error')
        return { baseFeeWei: 2_000_000_000n, block: 7n }
      },
    },
  })
  return { state, market }
}

t.test('the market names what no source answered for', async (t) => {
  const { state, market } = createTestMarket()
  const found = await market()
  t.strictSame(found.missing, ['SOL', 'polygon'])
  t.equal(found.gas[0]?.transferUsd, 0.126, '21,000 gas at 2 gwei and 3,000 USD')
  await Promise.all([market(), market()])
  t.equal(state.reads, 1, 'one read for all callers')
})

t.test('gas is kept for ten minutes, then it is missing', async (t) => {
  const { state, market } = createTestMarket()
  await market()
  state.chains = false
  state.later += MINUTE
  const [old] = (await market()).gas
  t.match(old, { block: 7n, at: 0 })
  state.later += 10 * MINUTE
  t.strictSame((await market()).gas, [])
  state.prices = false
  state.later += 31 * SECOND
  await t.rejects(market(), { code: 'price_unavailable' })
  state.prices = true
  t.equal((await market()).prices.length, 5, 'a failure is not kept')
})
