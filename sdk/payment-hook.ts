import { SpendingCaps, toMicroUsdc, type SpendingCapOptions } from './spending-caps.ts'
import { GasStationError, PaymentNotMade, type PaymentRequired } from './station-errors.ts'
import { refusalHeaders, type TransportRequest } from './station-transport.ts'
import { encodeBase64OfJson, type PayableWay, type X402Offer } from './payment-terms.ts'
import { isQuotedPrice, type QuotedPrice } from './quoted-price.ts'
import {
  signPermit,
  signSolanaTransfer,
  signTransfer,
  transferMethodOf,
  type SolanaSigner,
  type X402Signer,
} from './x402-payloads.ts'

/** Pays a 402 by x402 or MPP, within caps, and only what the station has quoted. */

/** Makes the credential of an MPP challenge, as `Mppx.create(…)` of `mppx/client` does. */
export interface MppSigner {
  createCredential(response: Response): Promise<string>
}

/** A stablecoin of one US dollar. */
export interface PinnedAsset {
  readonly asset: string
  readonly decimals: number
  /** How x402 transfers it; EIP-3009 by default, on Solana always as Solana does. */
  readonly transferMethod?: 'eip3009' | 'permit2'
  /** Of the EIP-712 domain of the token; only EIP-3009 needs it. */
  readonly domain?: { readonly name: string; readonly version: string }
}

export interface PaymentOptions extends SpendingCapOptions {
  /** Pays on Base, and on BSC once Permit2 is approved for its USDC. */
  readonly x402?: X402Signer
  readonly solana?: SolanaSigner
  readonly mpp?: MppSigner
  /** Pays this address only; without it, the one that the station quotes. */
  readonly payee?: string
  /** The assets that are money, by CAIP-2 network; USDC on Base, BSC, Solana and Tempo by default. */
  readonly assets?: Readonly<Record<string, PinnedAsset>>
}

const USDC: Readonly<Record<string, PinnedAsset>> = {
  'eip155:8453': {
    asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
    decimals: 6,
    domain: { name: 'USD Coin', version: '2' },
  },
  'eip155:84532': {
    asset: '0x036cbd53842c5426634e7929541ec2318f3dcf7e',
    decimals: 6,
    domain: { name: 'USDC', version: '2' },
  },
  'eip155:56': {
    asset: '0x8ac76a51cc950d9822d68b83fe1ad97b32cd580d',
    decimals: 18,
    transferMethod: 'permit2',
  },
  'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp': {
    asset: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
    decimals: 6,
  },
  'eip155:4217': { asset: '0x20c000000000000000000000b9537d11c60e8b50', decimals: 6 },
}

/** Payments that are sent again when their call is repeated under the same key. */
const MAX_KEPT_PAYMENTS = 1_000
/** Prices have six; an asset with fewer could not be compared with them. */
const MIN_DECIMALS = 6
/** A difference of the clocks up to this is bridged; beyond it one of them is wrong. */
const MAX_CLOCK_DIFFERENCE_S = 600

/** The headers that pay a call. */
type PaymentHeaders = Readonly<Record<string, string>>

const nameOfKept = (origin: string, { idempotencyKey }: TransportRequest): string =>
  `${origin} ${idempotencyKey ?? ''}`

/** What makes two requests the same call; a stream is another one than a plain call. */
const describeCall = ({ path, body, headers }: TransportRequest): string =>
  JSON.stringify([path, body, headers])

/** Signs payments. One hook may serve several clients: its caps hold for all of them together. */
export class PaymentHook {
  readonly #options: PaymentOptions
  readonly #caps: SpendingCaps
  /** By origin and key; the oldest first. */
  readonly #kept = new Map<
    string,
    { readonly call: string; readonly headers: Promise<PaymentHeaders> }
  >()

  constructor(options: PaymentOptions) {
    for (const [network, { decimals }] of Object.entries(options.assets ?? {}))
      if (!Number.isSafeInteger(decimals) || decimals < MIN_DECIMALS)
        throw new GasStationError('invalid_asset', `the asset of ${network} has too few decimals`)
    this.#options = options
    this.#caps = new SpendingCaps(options)
  }

  /**
   * Returns the headers that pay a 402. Throws `PaymentNotMade` where it signs nothing. A signed payment
   * counts in the cap of the day for good: its holder may still cash it.
   */
  async pay(required: PaymentRequired, quote: () => Promise<QuotedPrice>): Promise<PaymentHeaders> {
    const ways = (required.offers as readonly PayableWay[]).filter((way) => this.#canSign(way))
    if (ways.length === 0) {
      const offered = required.offers.map(({ protocol, network }) => `${protocol} on ${network}`)
      const list = offered.length === 0 ? 'no payment' : offered.join(', ')
      throw notMade(
        'no_signer',
        `the station offers ${list}, which this hook cannot sign`,
        required,
      )
    }
    const quoted: unknown = await quote()
    if (!isQuotedPrice(quoted))
      throw notMade('quote_malformed', 'nothing was paid: what came is no quote', required)
    const faults = ways.map((way) => this.#faultOf(way, quoted))
    const chosen = ways[faults.indexOf(null)]
    if (chosen === undefined)
      throw notMade('offer_differs', `nothing was paid: ${faults.join('; ')}`, required)
    const now = stationSeconds(required)
    const refused = await this.#caps.reserve(toMicroUsdc(quoted.price_usdc))
    if (refused !== null) throw notMade(refused.code, refused.message, required)
    return this.#sign(chosen, now, required)
  }

  /** Pays a call. One that is repeated under its key gets the same payment, so it is never paid twice. */
  payCall(
    origin: string,
    request: TransportRequest,
    ...asked: Parameters<PaymentHook['pay']>
  ): Promise<PaymentHeaders> {
    const earlier = this.earlierPayment(origin, request)
    if (earlier !== null) return earlier
    const name = nameOfKept(origin, request)
    const headers = this.pay(...asked)
    const kept = { call: describeCall(request), headers }
    this.#kept.delete(name)
    this.#kept.set(name, kept)
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > MAX_KEPT_PAYMENTS && oldest !== undefined) this.#kept.delete(oldest)
    // Nothing was signed.
    headers.catch(() => this.#kept.get(name) === kept && this.#kept.delete(name))
    return headers
  }

  /** Returns the headers that have paid this call before; null without any. */
  earlierPayment(origin: string, request: TransportRequest): Promise<PaymentHeaders> | null {
    const kept = this.#kept.get(nameOfKept(origin, request))
    return kept?.call === describeCall(request) ? kept.headers : null
  }

  #canSign({ x402, mppChallenge }: PayableWay): boolean {
    const { x402: signer, solana, mpp } = this.#options
    if (x402 === undefined) return mppChallenge !== undefined && mpp !== undefined
    return (transferMethodOf(x402.entry) === 'solana' ? solana : signer) !== undefined
  }

  /** Returns why a way must not be paid; null if it may. */
  #faultOf(way: PayableWay, { price_usdc: price, offers }: QuotedPrice): string | null {
    const { protocol, network, asset, payTo, amount } = way
    const { payee, assets = USDC } = this.#options
    const money = Object.hasOwn(assets, network) ? assets[network] : undefined
    const at = `${protocol} on ${network}`
    if (money === undefined) return `${at}: no asset is known there`
    const isSame = network.startsWith('eip155:') ? isSameEvmAddress : Object.is
    if (!isSame(money.asset, asset)) return `${at}: ${asset} is not the known asset`
    const units = BigInt(toMicroUsdc(price)) * 10n ** BigInt(money.decimals - 6)
    if (units <= 0n || BigInt(amount) !== units)
      return `${at}: ${amount} is not the quoted price of ${price} USDC`
    const unfit = way.x402 === undefined ? null : faultOfTransfer(way.x402.entry, money)
    if (unfit !== null) return `${at}: ${unfit}`
    if (payee !== undefined && !isSame(payee, payTo)) return `${at}: ${payTo} is not the payee`
    const quoted = offers.find((one) => one.protocol === protocol && one.network === network)
    if (quoted === undefined) return `${at}: not in the quote`
    if (!isSame(quoted.asset, asset)) return `${at}: the quote names another asset`
    if (!isSame(quoted.pay_to, payTo)) return `${at}: the quote names another payee`
    return quoted.amount === amount ? null : `${at}: the quote names another amount`
  }

  async #sign(
    { x402, mppChallenge, network }: PayableWay,
    now: number,
    required: PaymentRequired,
  ): Promise<PaymentHeaders> {
    const { x402: signer, solana, mpp } = this.#options
    try {
      if (x402 !== undefined) {
        const { entry } = x402
        switch (transferMethodOf(entry)) {
          case 'solana':
            return toX402Headers(x402, await signSolanaTransfer(present(solana), entry))
          case 'permit2':
            return toX402Headers(x402, await signPermit(present(signer), entry, now))
          case 'eip3009':
            return toX402Headers(x402, await signTransfer(present(signer), entry, now))
        }
      }
      const challenge = { 'www-authenticate': mppChallenge ?? '' }
      const response = new Response(null, { status: 402, headers: challenge })
      return { authorization: (await mpp?.createCredential(response)) ?? '' }
    } catch (error) {
      throw notMade(
        'signer_failed',
        `the signer for ${network} failed: ${String(error)}`,
        required,
        error,
      )
    }
  }
}

const isSameEvmAddress = (one: string, other: string) => one.toLowerCase() === other.toLowerCase()

function present<Signer>(signer: Signer | undefined): Signer {
  if (signer === undefined) throw new TypeError('no signer')
  return signer
}

/** Returns why an entry of x402 cannot be paid with an asset; null if it can. */
function faultOfTransfer({ network, extra = {} }: X402Offer['entry'], money: PinnedAsset) {
  const method = transferMethodOf({ network, extra })
  if (method === 'solana')
    return typeof extra['feePayer'] === 'string' ? null : 'no account pays the fee'
  const { domain, transferMethod = 'eip3009' } = money
  if (method !== transferMethod) return `the asset is not paid by ${method} here`
  if (method === 'permit2') return null
  if (domain === undefined) return 'the domain of the asset is not known'
  const isKnown = extra['name'] === domain.name && extra['version'] === domain.version
  return isKnown ? null : 'the domain of the asset is another'
}

/** The header that pays by x402, in the version of the offer. */
function toX402Headers({ entry, resource, v1Network }: X402Offer, payload: object): PaymentHeaders {
  if (v1Network === undefined)
    return {
      'payment-signature': encodeBase64OfJson({
        x402Version: 2,
        resource,
        accepted: entry,
        payload,
      }),
    }
  const { scheme } = entry
  return {
    'x-payment': encodeBase64OfJson({ x402Version: 1, scheme, network: v1Network, payload }),
  }
}

const notMade = (code: string, message: string, required: PaymentRequired, cause?: unknown) =>
  new PaymentNotMade(code, message, required, cause)

/** The time of the station, which decides whether a payment is valid; throws if the clocks disagree. */
function stationSeconds(required: PaymentRequired): number {
  const here = Math.floor(Date.now() / 1_000)
  const date = Date.parse(refusalHeaders(required).get('date') ?? '')
  if (Number.isNaN(date)) return here
  const there = Math.floor(date / 1_000)
  if (Math.abs(there - here) <= MAX_CLOCK_DIFFERENCE_S) return there
  const [ours, theirs] = [here, there].map((at) => new Date(at * 1_000).toISOString())
  throw notMade(
    'clock_differs',
    `nothing was signed: the clock here says ${ours}, the station ${theirs}. Set the clock first.`,
    required,
  )
}
