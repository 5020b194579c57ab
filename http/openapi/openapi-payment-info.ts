import type { PaymentService } from '../../payments/payment-service-types.ts'
import { asMicros, toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { Tool } from '../../tools/define-tool.ts'

/** `x-payment-info`: what an operation costs and how it is paid, for crawlers of paid APIs. */

/** The document states what a payment of this size could use: the rails do not depend on the amount. */
export type PaymentOfferSource = Pick<PaymentService, 'offer'>

const MICRO = asMicros(1n)

/** The ways to pay without a key that are on, as people name them. */
export function keylessRailsOf(paying: PaymentOfferSource): string[] {
  const offer = paying.offer('/', { description: '', price: MICRO, deadlineMs: 0 })
  return [
    ...((offer?.requirements.length ?? 0) > 0 ? ['x402'] : []),
    ...((offer?.mpp ?? null) === null ? [] : ['MPP']),
  ]
}

const dollars = (amount: Micros) => toUsdc(amount).toFixed(6)

/** What an external payer pays for a call: the price, or what follows the free calls. Null where nothing. */
export function pricesForExternalPayers(tool: Tool): readonly Micros[] | null {
  const { price, examples } = tool
  const prices = typeof price === 'function' ? examples.map((example) => price(example)) : [price]
  const beyond = tool.free?.overage ?? tool.keyless
  const asked = [...prices, ...(beyond === undefined ? [] : [beyond])].filter(
    (one): one is Micros => one !== null && one > ZERO_MICROS,
  )
  return asked.length === 0 ? null : asked
}

/** Returns the payment info of a tool; null for one that never costs anything. */
export function toToolPaymentInfo(tool: Tool, paying: PaymentOfferSource): object | null {
  const prices = pricesForExternalPayers(tool)
  if (prices === null) return null
  const sorted = prices.toSorted((a, b) => (a < b ? -1 : 1))
  const [lowest = ZERO_MICROS, highest = lowest] = [sorted[0], sorted.at(-1)]
  const offer = paying.offer(`/api/t/${tool.slug}`, {
    description: tool.description,
    price: highest,
    deadlineMs: tool.timeoutMs,
    settlesAfterAnswer: tool.community !== undefined,
  })
  const { requirements = [], mpp = null } = offer ?? {}
  return {
    price:
      lowest === highest
        ? { mode: 'fixed', currency: 'USD', amount: dollars(lowest) }
        : { mode: 'dynamic', currency: 'USD', min: dollars(lowest), max: dollars(highest) },
    protocols: [
      ...(requirements.length === 0 ? [] : [{ x402: {} }]),
      ...(mpp === null
        ? []
        : [{ mpp: { method: 'tempo', intent: 'charge', currency: mpp.currency } }]),
    ],
    ...(mpp === null
      ? {}
      : {
          offers: [
            { intent: 'charge', method: 'tempo', amount: mpp.amount, currency: mpp.currency },
          ],
        }),
  }
}

/** The price in words, for people and for models. */
export function describeToolPrice(tool: Tool): string {
  const { price, free, keyless, access } = tool
  if (typeof price === 'function') return 'The price depends on the input.'
  if (free !== undefined) {
    const { perDay, overage } = free
    const after = overage === null ? 'then refused' : `then ${toUsdc(overage)} USDC each`
    return `${perDay} free calls a day, ${after}.`
  }
  if (access === 'free_with_key')
    return keyless === undefined
      ? 'Free with a key.'
      : `Free with a key, ${toUsdc(keyless)} USDC without one.`
  return price === ZERO_MICROS ? 'Free.' : `Costs ${toUsdc(price)} USDC.`
}
