import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { fromUsdc } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import type {
  ChainReader,
  ReadableChainName,
  EvmHex,
  TokenContractInfo,
} from '../../providers/chain-data/chain-data-port.ts'
import {
  ChainNameField,
  liveOrFixtureModeOfChain,
  NullableNumber,
  NullableText,
  toValidChecksumAddress,
  atomicUnitsToNumber,
} from '../../providers/chain-data/chain-tool-schemas.ts'
import { widelyHeldTokensOnChain } from '../../providers/chain-data/bundled-token-contract-list.ts'
import { chainReadToolAvailability } from '../tool-availability.ts'
import { defineTool, callerIdOf } from '../define-tool.ts'
import type {
  DexLiquidityPool,
  LiquidityPoolSearchResult,
} from '../../providers/liquidity-pools/liquidity-pools-port.ts'
import {
  totalLiquidityUsd,
  assessTokenRisks,
  sumLiquidityPoolField,
} from '../../providers/liquidity-pools/token-risks.ts'

/** The tool `onchain-insight`: liquidity and large transfers of a token. */

const ADDRESS = /^0x[0-9a-fA-F]{40}$/
const MAX_POOLS_SHOWN = 10
const MAX_TRANSFERS_SHOWN = 10
const WHALE_SHARE = 0.001
const WHALE_USD = 50_000

/** Returns null for a source that fails. */
async function nullIfUnavailable<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    if (error instanceof ServiceError) return null
    throw error
  }
}

/** Lists transfers in the latest blocks above a thousandth of the liquidity and 50,000 USD. */
async function listWhaleTransfers(
  chain: ChainReader,
  name: ReadableChainName,
  address: EvmHex,
  {
    decimals,
    usd,
    liquidity,
  }: { decimals: number | null; usd: number | null; liquidity: number | null },
) {
  if (decimals === null || usd === null) return []
  const minTokens = Math.max(WHALE_USD, (liquidity ?? 0) * WHALE_SHARE) / usd
  // Six decimals of the threshold suffice, and a bigint holds any float.
  const units = (BigInt(Math.ceil(minTokens * 1e6)) * 10n ** BigInt(decimals)) / 1_000_000n
  const found = (await nullIfUnavailable(chain.largeTransfers(name, address, units))) ?? []
  return found.slice(0, MAX_TRANSFERS_SHOWN).map(({ from, to, amount, hash, block }) => ({
    from,
    to,
    amount: atomicUnitsToNumber(amount, decimals),
    usd_value: Math.round(atomicUnitsToNumber(amount, decimals) * usd),
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
}: DexLiquidityPool) => ({
  dex,
  address,
  quote,
  price_usd: priceUsd,
  liquidity_usd: liquidityUsd,
  volume_24h_usd: volume24hUsd,
  created_at: createdAt === null ? null : new Date(createdAt).toISOString(),
})

function tokenView(
  address: string,
  pool: DexLiquidityPool | undefined,
  facts: TokenContractInfo | null,
) {
  const { name = null, symbol = null, decimals = null, supply = null } = facts ?? {}
  const { owner = null, implementation = null } = facts ?? {}
  return {
    address,
    symbol: symbol ?? pool?.token.symbol ?? null,
    name: name ?? pool?.token.name ?? null,
    decimals,
    total_supply:
      supply === null || decimals === null ? null : atomicUnitsToNumber(supply, decimals),
    owner,
    implementation,
  }
}

/** Returns the address of the token: given, from a pool, or from the list. */
function findTokenAddress(
  query: string,
  found: LiquidityPoolSearchResult | null,
  chain: ReadableChainName,
): string | null {
  if (ADDRESS.test(query)) return query
  const pooled = found?.pools[0]?.token.address
  if (pooled !== undefined) return ADDRESS.test(pooled) ? pooled : null
  const listed = widelyHeldTokensOnChain(chain).find((one) => one.symbol === query.toUpperCase())
  return listed?.address ?? null
}

const Open = Type.Object({}, { additionalProperties: true })

export default defineTool({
  slug: 'onchain_insight',
  name: 'On-chain Insight',
  category: 'onchain',
  description:
    'Reports on a token of one chain: price, volume and liquidity of its pools, large transfers, properties of its contract, and signals of risk. Unknown values are null.',
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
        pattern: NOT_BLANK_PATTERN,
        description: 'Symbol, address or words.',
      }),
      chain: Type.Optional(ChainNameField),
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
  availability: chainReadToolAvailability,
  preflight({ query }, { chain }) {
    if (ADDRESS.test(query.trim())) toValidChecksumAddress(chain, query.trim(), '/query')
  },
  async run({ query, chain: name = 'base' }, { chain, pools, caller, signal, now, meter, emit }) {
    const wanted = query.trim()
    const found = await nullIfUnavailable(
      pools.find(name, wanted, { owner: callerIdOf(caller), signal }),
    )
    const named = findTokenAddress(wanted, found, name)
    const address = named === null ? null : chain.checksum(named)
    emit({ type: 'partial', path: '/dex_pools', value: (found?.pools ?? []).map(poolView) })
    const facts = address === null ? null : await nullIfUnavailable(chain.token(name, address))
    if (found === null && facts === null) {
      throw new ServiceError('upstream_error', {
        providers: ['dexscreener', 'geckoterminal', `rpc:${name}`],
      })
    }
    const traded = found?.pools ?? []
    if (address === null || (traded.length === 0 && facts?.hasCode !== true)) {
      throw new ServiceError('no_evidence', { query: wanted, chain: name })
    }
    const [deepest] = traded
    const usd = deepest?.priceUsd ?? null
    const liquidity = totalLiquidityUsd(traded)
    const decimals = facts?.decimals ?? null
    emit({ type: 'progress', step: 'transfers' })
    const flows = await listWhaleTransfers(chain, name, address, { decimals, usd, liquidity })
    const pooled = found === null || traded.length === 0 ? [] : [found.source]
    const sources = [...pooled, ...(facts === null ? [] : [`rpc:${name}`])]
    meter.served(sources.join(','), found?.mode ?? liveOrFixtureModeOfChain(chain, name))
    return {
      token: tokenView(address, deepest, facts),
      price_usd: usd,
      volume_24h_usd: sumLiquidityPoolField(traded, 'volume24hUsd'),
      liquidity_usd: liquidity,
      whale_flows: flows,
      dex_pools: traded.slice(0, MAX_POOLS_SHOWN).map(poolView),
      risk_signals: assessTokenRisks(traded, facts, now().getTime()),
      sources,
      chain: name,
      network: chain.about(name).network,
    }
  },
})
