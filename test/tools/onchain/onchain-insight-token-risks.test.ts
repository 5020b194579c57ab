import t from 'tap'
import { getAddress, numberToHex, type Hex } from 'viem'
import { startLocalBase } from '../../support/chain/local-chain.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  startTestLiquidityPoolApis,
  type SampleLiquidityPool,
} from '../../support/upstreams/test-liquidity-pool-apis.ts'

const DAY = 86_400_000
const base = await startLocalBase()
t.teardown(() => base.stop())
const WHALE = getAddress('0x00000000000000000000000000000000000b0b01')
const OTHER = getAddress('0x00000000000000000000000000000000000b0b02')
const OTHERS_TOKEN = '0x1111111111111111111111111111111111111111'

/** The USDC of the local chain under another name: a contract that can be queried. */
const pool = (more: Partial<SampleLiquidityPool> = {}): SampleLiquidityPool => ({
  chain: 'base',
  dex: 'uniswap',
  token: base.usdc,
  symbol: 'DEMO',
  quote: 'WETH',
  usd: 2,
  liquidity: 3_000_000,
  volume: 250_000,
  buys: 120,
  sells: 90,
  createdAt: Date.now() - 400 * DAY,
  ...more,
})
const dex = await startTestLiquidityPoolApis(t, [])
const { call, onboard, balance } = await startInProcessTestStation(t, {
  RPC_URL_BASE: base.rpcUrl,
  ...dex.settings,
})
let guest = await onboard()
t.beforeEach(async () => {
  guest = await onboard()
})
const look = (fields: object) => call(guest, 'onchain_insight', fields)
const plant = (...pools: SampleLiquidityPool[]) => void dex.pools.splice(0, Infinity, ...pools)
const codes = (body: { readonly [name: string]: unknown }) =>
  (body['risk_signals'] as { code: string }[]).map(({ code }) => code)

t.test(
  'a healthy token: price of its deepest pool, total liquidity, large transfers',
  async (t) => {
    plant(
      pool({ dex: 'aerodrome', usd: 2.02, liquidity: 1_000_000, volume: 50_000 }),
      pool(),
      pool({ token: OTHERS_TOKEN, liquidity: 900 }),
      pool({ chain: 'ethereum', liquidity: 9e9 }),
    )
    await base.mint(WHALE, 30_000_000_000n)
    await base.mint(OTHER, 20_000_000_000n)
    const { status, body } = await look({ query: 'demo' })
    t.equal(status, 200)
    t.match(body, {
      token: { symbol: 'USDC', name: 'USD Coin', decimals: 6, owner: null, implementation: null },
      price_usd: 2,
      liquidity_usd: 4_000_000,
      volume_24h_usd: 300_000,
      sources: ['dexscreener', 'rpc:base'],
      network: 'local-devnet',
      _meta: { mode: 'fixture' },
    })
    t.strictSame(codes(body), [])
    t.equal((body['dex_pools'] as unknown[]).length, 2, 'other tokens of this name are left out')
    const flows = body['whale_flows'] as object[]
    t.equal(flows.length, 1, '60,000 USD is a whale and 40,000 is not')
    t.match(flows[0], { to: WHALE, amount: 30_000, usd_value: 60_000 })
  },
)

t.test('each risk has its signal', async (t) => {
  const dangers: Record<string, SampleLiquidityPool[]> = {
    LOW_LIQUIDITY: [pool({ liquidity: 49_000 }), pool({ liquidity: 500 })],
    NEW_TOKEN: [pool({ createdAt: Date.now() - 6 * DAY }), pool({ createdAt: Date.now() - DAY })],
    NO_SELLS: [pool({ sells: 0 }), pool({ sells: 0 })],
    SINGLE_POOL: [pool()],
    PRICE_DIVERGENCE: [pool(), pool({ usd: 2.2 })],
  }
  for (const [code, pools] of Object.entries(dangers)) {
    plant(...pools)
    t.strictSame(codes((await look({ query: base.usdc })).body), [code])
  }
})

t.test('an upgradeable contract and a remaining owner are reported', async (t) => {
  const proxy = getAddress('0x00000000000000000000000000000000000c0de1')
  // Answers every call with one word: its own address, which is an owner as well.
  const code: Hex = `0x73${proxy.slice(2) as string}60005260206000f3`
  await base.client.setCode({ address: proxy, bytecode: code })
  await base.client.setStorageAt({
    address: proxy,
    index: '0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc',
    value: numberToHex(BigInt(WHALE), { size: 32 }),
  })
  plant()
  const { status, body } = await look({ query: proxy, chain: 'base' })
  t.equal(status, 200)
  t.match(body, { price_usd: null, liquidity_usd: null, dex_pools: [], sources: ['rpc:base'] })
  t.match(body['token'], { implementation: WHALE, owner: proxy })
  t.strictSame(codes(body), ['OWNER_KEPT', 'UPGRADEABLE'])
})

t.test('the second source replaces a failing or invalid first one', async (t) => {
  plant(pool(), pool({ dex: 'aerodrome' }))
  for (const mood of ['500', 'drift', 'malformed', 'empty', '429'] as const) {
    dex.behaviour.dexscreener = mood
    const { body } = await look({ query: base.usdc })
    t.match(body, { price_usd: 2, liquidity_usd: 6_000_000 }, mood)
    t.strictSame(body['sources'], ['geckoterminal', 'rpc:base'])
    t.equal((await look({ query: 'DEMO' })).body['price_usd'], 2)
  }
})

t.test('an empty result is free', async (t) => {
  const before = await balance(guest)
  dex.behaviour.dexscreener = '500'
  const unknown = await look({ query: 'nosuchtoken' })
  t.match(unknown, { status: 422, body: { code: 'no_evidence', refunded: true } })
  dex.behaviour.geckoterminal = '500'
  const down = await look({ query: 'DEMO', chain: 'polygon' })
  t.match(down, { status: 502, body: { code: 'upstream_error', refunded: true } })
  const alone = await look({ query: base.usdc })
  t.match(alone.body, { price_usd: null, sources: ['rpc:base'], token: { symbol: 'USDC' } })
  t.equal(Math.round((before - (await balance(guest))) * 1e6) / 1e6, 0.04, 'one of three answered')
})
