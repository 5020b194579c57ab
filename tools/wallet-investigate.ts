import Type from 'typebox'
import { DAY } from '../core/clock.ts'
import { ServiceError } from '../core/errors.ts'
import { fromUsdc } from '../core/money.ts'
import { labelOf } from './chain/labels.ts'
import { CHAIN_NAMES, type ChainName } from './chain/port.ts'
import {
  Address,
  ChainField,
  modeOf,
  NullableNumber,
  NullableText,
  spelled,
} from './chain/shapes.ts'
import { onChains } from './availability.ts'
import { defineTool } from './define.ts'
import { usdOf } from './prices/usd.ts'
import { lookAt, type WalletOnChain } from './wallet/look.ts'

const STANDARD: readonly ChainName[] = ['ethereum', 'base', 'optimism', 'arbitrum', 'polygon']
const WHALE_ETH = 100
const FAST_PER_DAY = 50
const TOP_TOKENS = 10
const RECENT = 20

type Flag = 'WHALE_ETH' | 'IS_CONTRACT' | 'ENS_VERIFIED' | 'LABELED_ENTITY' | 'HIGH_VELOCITY'

interface Known {
  readonly looks: readonly WalletOnChain[]
  readonly ensName: string | null
  readonly label: string | null
  readonly now: number
}

function flagsOf({ looks, ensName, label, now }: Known): Flag[] {
  const ether = looks.reduce((sum, look) => sum + (look.native === 'ETH' ? look.balance : 0), 0)
  const flags: [Flag, boolean][] = [
    ['WHALE_ETH', ether >= WHALE_ETH],
    ['IS_CONTRACT', looks.some((look) => look.isContract)],
    ['ENS_VERIFIED', ensName !== null],
    ['LABELED_ENTITY', label !== null],
    ['HIGH_VELOCITY', looks.some((look) => isFast(look, now))],
  ]
  return flags.flatMap(([flag, holds]) => (holds ? [flag] : []))
}

/** More than so many transactions a day over its life; what has no age has no speed. */
function isFast({ nonce, firstSentAt }: WalletOnChain, now: number): boolean {
  if (firstSentAt === null) return false
  return nonce / Math.max(1, (now - firstSentAt) / DAY) > FAST_PER_DAY
}

/** A chain as it is told while the others are still asked. */
const seenOn = ({ chain, native, balance, nonce, tokens }: WalletOnChain) => ({
  chain,
  ok: true,
  native,
  balance,
  nonce,
  tokens: tokens.length,
})

/** What is held, dearest first; a token without a price has no value rather than none. */
function holdingsOf(looks: readonly WalletOnChain[], usd: (symbol: string) => number | null) {
  const valued = looks.flatMap(({ chain, native, balance, tokens }) => [
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

const Held = Type.Object({
  chain: Type.String(),
  symbol: Type.String(),
  address: NullableText,
  amount: Type.Number(),
  usd_value: NullableNumber,
})
const Moved = Type.Object({
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
    'What public chains say of an address: ENS name, known owner, age, balances in USD, recent token transfers and flags of risk.',
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
      address: Address,
      chains: Type.Optional(
        Type.Array(ChainField, { minItems: 1, maxItems: CHAIN_NAMES.length, uniqueItems: true }),
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
    top_tokens: Type.Array(Held),
    recent_txs: Type.Array(Moved),
    risk_flags: Type.Array(Type.String()),
    chains_checked: Type.Array(Type.String()),
    chains_failed: Type.Array(Type.String()),
  }),
  availability: onChains,
  preflight({ address }, { chain }) {
    spelled(chain, address, '/address')
  },
  async run({ address: given, chains }, context) {
    const address = spelled(context.chain, given, '/address')
    const { chain, prices, signal, now, emit, meter } = context
    const asked = (chains as ChainName[] | undefined) ?? STANDARD
    const looked = asked.map(async (name, at) => {
      const look = await lookAt(name, address, context)
      const value = look === null ? { chain: name, ok: false } : seenOn(look)
      emit({ type: 'partial', path: `/chains/${at}`, value })
      return look
    })
    const [all, ensName] = await Promise.all([
      Promise.all(looked),
      chain.ensName(address).catch(() => null),
    ])
    const looks = all.filter((look) => look !== null)
    const [first] = looks
    if (first === undefined) {
      throw new ServiceError('upstream_error', { provider: 'rpc', chains: [...asked] })
    }
    const symbols = looks.flatMap(({ native, tokens }) => [
      native,
      ...tokens.map((one) => one.token.symbol),
    ])
    const holdings = holdingsOf(looks, await usdOf(prices, symbols, signal))
    const label = labelOf(address)
    const ages = looks.flatMap(({ firstSentAt }) => firstSentAt ?? [])
    const at = now().getTime()
    const checked = looks.map((look) => look.chain)
    meter.served(`rpc:${checked.join(',')}`, modeOf(chain, first.chain))
    return {
      address,
      ens_name: ensName,
      entity_label: label,
      wallet_age_days:
        ages.length === 0 ? null : Math.max(0, Math.floor((at - Math.min(...ages)) / DAY)),
      usd_balance: total(holdings),
      top_tokens: holdings.slice(0, TOP_TOKENS),
      recent_txs: looks.flatMap(({ movements }) => movements).slice(0, RECENT),
      risk_flags: flagsOf({ looks, ensName, label, now: at }),
      chains_checked: checked,
      chains_failed: asked.filter((name) => !checked.includes(name)),
    }
  },
})
