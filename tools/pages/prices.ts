import { amountsIn, asAmount, readAmount, type Amount } from './amounts.ts'
import { shownElements, type Hidden } from './hidden.ts'
import type { PagePrice } from './port.ts'
import { elementsOf, lineOf, rawText, type PageElement } from './tree.ts'

const MOST_PRICES = 100
const DEEPEST = 12
const MOST_NODES = 20_000
const META = new Set(['product:price:amount', 'og:price:amount', 'product:sale_price:amount'])
const META_CURRENCY = new Set(['product:price:currency', 'og:price:currency'])

/** What a page asks for, each amount once: data for machines first, then what people read. */
export function pricesOf(
  root: PageElement,
  hidden: Hidden,
  declared: readonly PagePrice[],
  shown: readonly Amount[],
): PagePrice[] {
  const all = [
    ...declared,
    ...microdataPrices(root, hidden),
    ...metaPrices(root),
    ...shown.map((one) => ({ ...one, source: 'text' as const })),
  ]
  const once = new Map<string, PagePrice>()
  for (const price of all) {
    const { amount, currency } = price
    // The same amount without a currency is the same price.
    if (!once.has(`${amount} `) && !once.has(`${amount} ${currency ?? ''}`))
      once.set(`${amount} ${currency ?? ''}`, price)
    if (once.size === MOST_PRICES) break
  }
  return [...once.values()]
}

/** `offers.price` of schema.org, in JSON. */
export function jsonPrices(root: PageElement): PagePrice[] {
  const prices: PagePrice[] = []
  for (const element of elementsOf(root)) {
    const { name, attributes } = element
    if (name !== 'script' || !/^application\/ld\+json/i.test(attributes.get('type') ?? '')) continue
    const data = parsed(rawText(element))
    for (const node of objectsIn(data)) prices.push(...offered(node))
    if (prices.length > MOST_PRICES) break
  }
  return prices.slice(0, MOST_PRICES)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Every object in some JSON, those further out first, as far as anybody nests offers. */
function* objectsIn(data: unknown): Generator<Record<string, unknown>> {
  let level: unknown[] = [data]
  let seen = 0
  for (let depth = 0; depth < DEEPEST && level.length > 0; depth += 1) {
    const next: unknown[] = []
    for (const value of level) {
      if (typeof value !== 'object' || value === null) continue
      seen += 1
      if (seen > MOST_NODES) return
      if (!Array.isArray(value)) yield value as Record<string, unknown>
      for (const inner of Object.values(value)) if (typeof inner === 'object') next.push(inner)
    }
    level = next
  }
}

function offered(node: Record<string, unknown>): PagePrice[] {
  const currency = currencyOf(node['priceCurrency'])
  return ['price', 'lowPrice', 'highPrice'].flatMap((field) => {
    const amount = amountOf(node[field], currency)
    return amount === null ? [] : [{ amount, currency, source: 'json_ld' as const }]
  })
}

function amountOf(value: unknown, currency: string | null): number | null {
  if (typeof value === 'number') return asAmount(value)
  if (typeof value !== 'string' || value.length > 100) return null
  const plain = /^\d{1,15}(?:\.\d{1,18})?$/.test(value.trim())
  return plain ? Number(value) : readAmount(/\d[\d.,'’ ]*/.exec(value)?.[0].trim() ?? '', currency)
}

const currencyOf = (value: unknown): string | null =>
  typeof value === 'string' && /^[A-Za-z]{3,5}$/.test(value.trim())
    ? value.trim().toUpperCase()
    : null

function microdataPrices(root: PageElement, hidden: Hidden): PagePrice[] {
  const prices: PagePrice[] = []
  let currency: string | null = null
  const open: { currency: string | null; text: string }[] = []
  for (const element of shownElements(root, hidden)) {
    const names = element.attributes.get('itemprop')?.split(/\s+/) ?? []
    if (names.length === 0) continue
    const text = element.attributes.get('content') ?? lineOf(element, 100)
    if (names.includes('priceCurrency')) {
      const own = currencyOf(text)
      currency = own ?? currency
      for (const one of open) one.currency ??= own
    }
    if (!['price', 'lowPrice', 'highPrice'].some((name) => names.includes(name))) continue
    if (open.length === MOST_PRICES) break
    // the currency may stand before the price or behind it
    open.push({ currency: amountsIn(text)[0]?.currency ?? currency, text })
  }
  for (const one of open) {
    const amount = amountOf(one.text, one.currency)
    if (amount !== null) prices.push({ amount, currency: one.currency, source: 'microdata' })
  }
  return prices
}

function metaPrices(root: PageElement): PagePrice[] {
  const amounts: string[] = []
  let currency: string | null = null
  for (const { name, attributes } of elementsOf(root)) {
    if (name !== 'meta') continue
    const property = attributes.get('property') ?? attributes.get('name') ?? ''
    const content = attributes.get('content') ?? ''
    if (META_CURRENCY.has(property)) currency ??= currencyOf(content)
    if (META.has(property) && amounts.length < MOST_PRICES) amounts.push(content)
  }
  return amounts.flatMap((written) => {
    const amount = amountOf(written, currency)
    return amount === null ? [] : [{ amount, currency, source: 'meta' as const }]
  })
}
