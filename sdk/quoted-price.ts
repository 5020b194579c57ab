/** What a payment is compared with. */

/** The part of a quote that a payment is compared with. */
export interface QuotedPrice {
  readonly price_usdc: number
  readonly offers: readonly {
    readonly protocol: string
    readonly network: string
    readonly asset: string
    readonly pay_to: string
    readonly amount: string
  }[]
}

const OFFER_FIELDS = ['protocol', 'network', 'asset', 'pay_to', 'amount'] as const

/** Whether a price can be compared: anything may come from a server that is no station. */
export function isQuotedPrice(value: unknown): value is QuotedPrice {
  const { price_usdc: price, offers } = (value ?? {}) as Partial<QuotedPrice>
  return Number.isSafeInteger(Math.round(Number(price) * 1e6)) && typeof price === 'number'
    ? Array.isArray(offers) && offers.every(isOffer)
    : false
}

const isOffer = (offer: unknown): boolean =>
  typeof offer === 'object' &&
  offer !== null &&
  OFFER_FIELDS.every((name) => typeof (offer as Record<string, unknown>)[name] === 'string')
