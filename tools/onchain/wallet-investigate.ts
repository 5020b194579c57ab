import Type from 'typebox'
import { DAY } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { fromUsdc } from '../../core/money.ts'
import { findEthereumAddressOwnerLabel } from '../../providers/chain-data/ethereum-address-labels.ts'
import {
  READABLE_CHAIN_NAMES,
  type ReadableChainName,
} from '../../providers/chain-data/chain-data-port.ts'
import {
  EvmAddressField,
  ChainNameField,
  liveOrFixtureModeOfChain,
  NullableNumber,
  NullableText,
  toValidChecksumAddress,
} from '../../providers/chain-data/chain-tool-schemas.ts'
import { chainReadToolAvailability } from '../tool-availability.ts'
import { defineTool } from '../define-tool.ts'
import { fetchCoinUsdPrices } from '../../providers/prices/usd-prices.ts'
import {
  readWalletSnapshot,
  type WalletSnapshot,
} from './wallet-investigate/read-onchain-wallet-snapshot.ts'

/** The tool `wallet-investigate`: balances and activity of a wallet on several chains. */

const DEFAULT_CHAINS: readonly ReadableChainName[] = [
  'ethereum',
  'base',
  'optimism',
  'arbitrum',
  'polygon',
]
const WHALE_ETH = 100
const FAST_PER_DAY = 50
const TOP_TOKENS = 10
const MAX_RECENT_TRANSFERS = 20

type Flag = 'WHALE_ETH' | 'IS_CONTRACT' | 'ENS_VERIFIED' | 'LABELED_ENTITY' | 'HIGH_VELOCITY'

interface WalletFindings {
  readonly looks: readonly WalletSnapshot[]
  readonly ensName: string | null
  readonly label: string | null
  readonly now: number
}

function riskFlagsOf({ looks: snapshots, ensName, label, now }: WalletFindings): Flag[] {
  const ether = snapshots.reduce((sum, look) => sum + (look.native === 'ETH' ? look.balance : 0), 0)
  const flags: [Flag, boolean][] = [
    ['WHALE_ETH', ether >= WHALE_ETH],
    ['IS_CONTRACT', snapshots.some((look) => look.isContract)],
    ['ENS_VERIFIED', ensName !== null],
    ['LABELED_ENTITY', label !== null],
    ['HIGH_VELOCITY', snapshots.some((look) => isFast(look, now))],
  ]
  return flags.flatMap(([flag, holds]) => (holds ? [flag] : []))
}

/** Returns whether it sends more than this many transactions a day over its life; false without an age. */
function isFast({ nonce, firstSentAt }: WalletSnapshot, now: number): boolean {
  if (firstSentAt === null) return false
  return nonce / Math.max(1, (now - firstSentAt) / DAY) > FAST_PER_DAY
}

/** Progress of one chain while the others are still read. */
const toChainProgress = ({ chain, native, balance, nonce, tokens }: WalletSnapshot) => ({
  chain,
  ok: true,
  native,
  balance,
  nonce,
  tokens: tokens.length,
})

/** Returns the holdings, most valuable first; a token without a price has the value null. */
function holdingsOf(snapshots: readonly WalletSnapshot[], usd: (symbol: string) => number | null) {
  const valued = snapshots.flatMap(({ chain, native, balance, tokens }) => [
    ...(balance > 0 ? [{ chain, symbol: native as string, address: null, amount: balance }] : []),
    ...tokens.map(({ token, amount }) => ({
      chain,
      symbol: token.symbol,
      address: token.address as string,
      amount,
    })),
  ])
  const worth = (symbol: string, amount: number) => {
    const price = usd(symbol)
    return price === null ? null : Math.round(price * amount * 100) / 100
  }
  return valued
    .map((held) => ({ ...held, usd_value: worth(held.symbol, held.amount) }))
    .sort((one, other) => (other.usd_value ?? -1) - (one.usd_value ?? -1))
}

const total = (holdings: ReturnType<typeof holdingsOf>): number | null => {
  if (holdings.length === 0) return 0
  const known = holdings.flatMap(({ usd_value }) => usd_value ?? [])
  return known.length === 0
    ? null
    : Math.round(known.reduce((sum, one) => sum + one, 0) * 100) / 100
}

const HoldingSchema = Type.Object({
  chain: Type.String(),
  symbol: Type.String(),
  address: NullableText,
  amount: Type.Number(),
  usd_value: NullableNumber,
})
const TransferSchema = Type.Object({
  chain: Type.String(),
  tx_hash: Type.String(),
  block_number: Type.Integer(),
  direction: Type.Enum(['in', 'out'] as const),
  token: Type.String(),
  amount: Type.Number(),
  counterparty: Type.String(),
})

export default defineTool({
  slug: 'wallet_investigate',
  name: 'Wallet Investigator',
  category: 'onchain',
  description:
    'Investigates an address on public chains: ENS name, known owner, age, balances in USD, recent token transfers and flags of risk.',
  tags: ['wallet', 'risk', 'ens', 'evm'],
  useCases: [
    'Check a counterparty before paying it',
    'Spot a contract behind an address',
    'Value a wallet',
  ],
  examples: [{ address: '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045', chains: ['base'] }],
  access: 'paid',
  price: fromUsdc(0.05),
  effect: 'none',
  timeoutMs: 30_000,
  input: Type.Object(
    {
      address: EvmAddressField,
      chains: Type.Optional(
        Type.Array(ChainNameField, {
          minItems: 1,
          maxItems: READABLE_CHAIN_NAMES.length,
          uniqueItems: true,
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    address: Type.String(),
    ens_name: NullableText,
    entity_label: NullableText,
    wallet_age_days: NullableNumber,
    usd_balance: NullableNumber,
    top_tokens: Type.Array(HoldingSchema),
    recent_txs: Type.Array(TransferSchema),
    risk_flags: Type.Array(Type.String()),
    chains_checked: Type.Array(Type.String()),
    chains_failed: Type.Array(Type.String()),
  }),
  availability: chainReadToolAvailability,
  preflight({ address }, { chain }) {
    toValidChecksumAddress(chain, address, '/address')
  },
  async run({ address: given, chains }, context) {
    const address = toValidChecksumAddress(context.chain, given, '/address')
    const { chain, prices, signal, now, emit, meter } = context
    const requested = (chains as ReadableChainName[] | undefined) ?? DEFAULT_CHAINS
    const looked = requested.map(async (name, at) => {
      const look = await readWalletSnapshot(name, address, context)
      const value = look === null ? { chain: name, ok: false } : toChainProgress(look)
      emit({ type: 'partial', path: `/chains/${at}`, value })
      return look
    })
    const [all, ensName] = await Promise.all([
      Promise.all(looked),
      chain.ensName(address).catch(() => null),
    ])
    const snapshots = all.filter((look) => look !== null)
    const [first] = snapshots
    if (first === undefined) {
      throw new ServiceError('upstream_error', { provider: 'rpc', chains: [...requested] })
    }
    const symbols = snapshots.flatMap(({ native, tokens }) => [
      native,
      ...tokens.map((one) => one.token.symbol),
    ])
    const holdings = holdingsOf(snapshots, await fetchCoinUsdPrices(prices, symbols, signal))
    const label = findEthereumAddressOwnerLabel(address)
    const ages = snapshots.flatMap(({ firstSentAt }) => firstSentAt ?? [])
    const at = now().getTime()
    const checked = snapshots.map((look) => look.chain)
    meter.served(`rpc:${checked.join(',')}`, liveOrFixtureModeOfChain(chain, first.chain))
    return {
      address,
      ens_name: ensName,
      entity_label: label,
      wallet_age_days:
        ages.length === 0 ? null : Math.max(0, Math.floor((at - Math.min(...ages)) / DAY)),
      usd_balance: total(holdings),
      top_tokens: holdings.slice(0, TOP_TOKENS),
      recent_txs: snapshots.flatMap(({ movements }) => movements).slice(0, MAX_RECENT_TRANSFERS),
      risk_flags: riskFlagsOf({ looks: snapshots, ensName, label, now: at }),
      chains_checked: checked,
      chains_failed: requested.filter((name) => !checked.includes(name)),
    }
  },
})
