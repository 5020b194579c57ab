import Type from 'typebox'
import { ServiceError } from '../core/errors.ts'
import { fromUsdc } from '../core/money.ts'
import { SAID } from '../core/said.ts'
import type { Chain, ChainName, Hex, TokenFacts } from './chain/port.ts'
import { ChainField, modeOf, NullableNumber, NullableText, spelled, whole } from './chain/shapes.ts'
import { tokensOn } from './chain/tokens.ts'
import { onChains } from './availability.ts'
import { defineTool, ownerOf } from './define.ts'
import type { Pool, PoolsFound } from './pools/port.ts'
import { liquidityOf, risksOf, sum } from './pools/risks.ts'

const ADDRESS = /^0x[0-9a-fA-F]{40}$/
const SHOWN_POOLS = 10
const SHOWN_FLOWS = 10
const WHALE_SHARE = 0.001
const WHALE_USD = 50_000

/** Null for a source that does not answer. */
async function quiet<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    if (error instanceof ServiceError) return null
    throw error
  }
}

/** Large transfers in the latest blocks: a thousandth of the liquidity, and 50,000 USD at least. */
async function flowsOf(
  chain: Chain,
  name: ChainName,
  address: Hex,
  {
    decimals,
    usd,
    liquidity,
  }: { decimals: number | null; usd: number | null; liquidity: number | null },
) {
  if (decimals === null || usd === null) return []
  const least = Math.max(WHALE_USD, (liquidity ?? 0) * WHALE_SHARE) / usd
  // Six decimals of a threshold are enough, and no float has more than a bigint can take.
  const units = (BigInt(Math.ceil(least * 1e6)) * 10n ** BigInt(decimals)) / 1_000_000n
  const found = (await quiet(chain.largeTransfers(name, address, units))) ?? []
  return found.slice(0, SHOWN_FLOWS).map(({ from, to, amount, hash, block }) => ({
    from,
    to,
    amount: whole(amount, decimals),
    usd_value: Math.round(whole(amount, decimals) * usd),
    tx_hash: hash,
    block_number: Number(block),
  }))
}

const poolView = ({
  dex,
  address,
  quote,
  priceUsd,
  liquidityUsd,
  volume24hUsd,
  createdAt,
}: Pool) => ({
  dex,
  address,
  quote,
  price_usd: priceUsd,
  liquidity_usd: liquidityUsd,
  volume_24h_usd: volume24hUsd,
  created_at: createdAt === null ? null : new Date(createdAt).toISOString(),
})

function tokenView(address: string, pool: Pool | undefined, facts: TokenFacts | null) {
  const { name = null, symbol = null, decimals = null, supply = null } = facts ?? {}
  const { owner = null, implementation = null } = facts ?? {}
  return {
    address,
    symbol: symbol ?? pool?.token.symbol ?? null,
    name: name ?? pool?.token.name ?? null,
    decimals,
    total_supply: supply === null || decimals === null ? null : whole(supply, decimals),
    owner,
    implementation,
  }
}

/** The address of what was asked for: given, found in a pool, or on the list. */
function addressOf(query: string, found: PoolsFound | null, chain: ChainName): string | null {
  if (ADDRESS.test(query)) return query
  const pooled = found?.pools[0]?.token.address
  if (pooled !== undefined) return ADDRESS.test(pooled) ? pooled : null
  const listed = tokensOn(chain).find((one) => one.symbol === query.toUpperCase())
  return listed?.address ?? null
}

const Open = Type.Object({}, { additionalProperties: true })

export default defineTool({
  slug: 'onchain_insight',
  name: 'On-chain Insight',
  category: 'onchain',
  description:
    'A token of one chain: price, volume and liquidity of its pools, large transfers, what its contract says, and signals of risk. What no source says is null.',
  tags: ['tokens', 'dex', 'liquidity', 'risk', 'base'],
  useCases: [
    'Judge a token before buying it',
    'Find the deepest pool',
    'Spot an owner who kept control',
  ],
  examples: [
    { query: 'AERO' },
    { query: '0x940181a94A35A4569E4529A3CDfB74e38FD98631', chain: 'base' },
  ],
  access: 'paid',
  price: fromUsdc(0.04),
  effect: 'none',
  timeoutMs: 20_000,
  input: Type.Object(
    {
      query: Type.String({
        minLength: 1,
        maxLength: 100,
        pattern: SAID,
        description: 'Symbol, address or words.',
      }),
      chain: Type.Optional(ChainField),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    token: Open,
    price_usd: NullableNumber,
    volume_24h_usd: NullableNumber,
    liquidity_usd: NullableNumber,
    whale_flows: Type.Array(Open),
    dex_pools: Type.Array(Open),
    risk_signals: Type.Array(
      Type.Object({ code: Type.String(), severity: Type.String(), detail: Type.String() }),
    ),
    sources: Type.Array(Type.String()),
    chain: Type.String(),
    network: NullableText,
  }),
  availability: onChains,
  preflight({ query }, { chain }) {
    if (ADDRESS.test(query.trim())) spelled(chain, query.trim(), '/query')
  },
  async run({ query, chain: name = 'base' }, { chain, pools, caller, signal, now, meter, emit }) {
    const asked = query.trim()
    const found = await quiet(pools.find(name, asked, { owner: ownerOf(caller), signal }))
    const named = addressOf(asked, found, name)
    const address = named === null ? null : chain.checksum(named)
    emit({ type: 'partial', path: '/dex_pools', value: (found?.pools ?? []).map(poolView) })
    const facts = address === null ? null : await quiet(chain.token(name, address))
    if (found === null && facts === null) {
      throw new ServiceError('upstream_error', {
        providers: ['dexscreener', 'geckoterminal', `rpc:${name}`],
      })
    }
    const traded = found?.pools ?? []
    if (address === null || (traded.length === 0 && facts?.hasCode !== true)) {
      throw new ServiceError('no_evidence', { query: asked, chain: name })
    }
    const [deepest] = traded
    const usd = deepest?.priceUsd ?? null
    const liquidity = liquidityOf(traded)
    const decimals = facts?.decimals ?? null
    emit({ type: 'progress', step: 'transfers' })
    const flows = await flowsOf(chain, name, address, { decimals, usd, liquidity })
    const pooled = found === null || traded.length === 0 ? [] : [found.source]
    const sources = [...pooled, ...(facts === null ? [] : [`rpc:${name}`])]
    meter.served(sources.join(','), found?.mode ?? modeOf(chain, name))
    return {
      token: tokenView(address, deepest, facts),
      price_usd: usd,
      volume_24h_usd: sum(traded, 'volume24hUsd'),
      liquidity_usd: liquidity,
      whale_flows: flows,
      dex_pools: traded.slice(0, SHOWN_POOLS).map(poolView),
      risk_signals: risksOf(traded, facts, now().getTime()),
      sources,
      chain: name,
      network: chain.about(name).network,
    }
  },
})
