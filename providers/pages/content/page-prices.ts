import {
  parseMoneyAmounts,
  toPlausibleMoneyAmountOrNull,
  parseMoneyNumber,
  type PageMoneyAmount,
} from './parse-money-amounts-in-page-text.ts'
import { collectVisibleElements, type HiddenElements } from '../html/hidden-elements.ts'
import type { PagePrice } from '../page-parser-port.ts'
import {
  descendantElements,
  elementTextLine,
  directElementText,
  type HtmlElement,
} from '../html/html-parser.ts'

/** Finds the prices on a page. */

const MAX_PAGE_PRICES = 100
const MAX_JSON_LD_DEPTH = 12
const MAX_JSON_LD_NODES = 20_000
const PRICE_PROPERTIES = new Set(['price', 'lowPrice', 'highPrice', 'priceCurrency'])
const META_PRICE_PROPERTIES = new Set([
  'product:price:amount',
  'og:price:amount',
  'product:sale_price:amount',
])
const META_CURRENCY_PROPERTIES = new Set(['product:price:currency', 'og:price:currency'])

/** Returns each price once: metadata first, then visible text. */
export function parsePagePrices(
  root: HtmlElement,
  hidden: HiddenElements,
  declared: readonly PagePrice[],
  shown: readonly PageMoneyAmount[],
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
    // An amount without a currency equals the same amount with one.
    if (!once.has(`${amount} `) && !once.has(`${amount} ${currency ?? ''}`))
      once.set(`${amount} ${currency ?? ''}`, price)
    if (once.size === MAX_PAGE_PRICES) break
  }
  return [...once.values()]
}

/** Reads `offers.price` of schema.org from JSON-LD. */
export function parseJsonLdPrices(root: HtmlElement): PagePrice[] {
  const prices: PagePrice[] = []
  for (const element of descendantElements(root)) {
    const { name, attributes } = element
    if (name !== 'script' || !/^application\/ld\+json/i.test(attributes.get('type') ?? '')) continue
    const data = parseJsonOrNull(directElementText(element))
    for (const node of walkJsonObjects(data)) prices.push(...toOfferPrices(node))
    if (prices.length > MAX_PAGE_PRICES) break
  }
  return prices.slice(0, MAX_PAGE_PRICES)
}

function parseJsonOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Yields every object in JSON, outer ones first, to a depth that offers use. */
function* walkJsonObjects(data: unknown): Generator<Record<string, unknown>> {
  let level: unknown[] = [data]
  let seen = 0
  for (let depth = 0; depth < MAX_JSON_LD_DEPTH && level.length > 0; depth += 1) {
    const next: unknown[] = []
    for (const value of level) {
      if (typeof value !== 'object' || value === null) continue
      seen += 1
      if (seen > MAX_JSON_LD_NODES) return
      if (!Array.isArray(value)) yield value as Record<string, unknown>
      for (const inner of Object.values(value)) if (typeof inner === 'object') next.push(inner)
    }
    level = next
  }
}

function toOfferPrices(node: Record<string, unknown>): PagePrice[] {
  const currency = parseCurrencyCode(node['priceCurrency'])
  return ['price', 'lowPrice', 'highPrice'].flatMap((field) => {
    const amount = parseOfferAmount(node[field], currency)
    return amount === null ? [] : [{ amount, currency, source: 'json_ld' as const }]
  })
}

function parseOfferAmount(value: unknown, currency: string | null): number | null {
  if (typeof value === 'number') return toPlausibleMoneyAmountOrNull(value)
  if (typeof value !== 'string' || value.length > 100) return null
  const plain = /^\d{1,15}(?:\.\d{1,18})?$/.test(value.trim())
  return plain
    ? Number(value)
    : parseMoneyNumber(/\d[\d.,'’ ]*/.exec(value)?.[0].trim() ?? '', currency)
}

const parseCurrencyCode = (value: unknown): string | null =>
  typeof value === 'string' && /^[A-Za-z]{3,5}$/.test(value.trim())
    ? value.trim().toUpperCase()
    : null

function microdataPrices(root: HtmlElement, hidden: HiddenElements): PagePrice[] {
  const prices: PagePrice[] = []
  let currency: string | null = null
  const open: { currency: string | null; text: string }[] = []
  for (const element of collectVisibleElements(root, hidden)) {
    const names = element.attributes.get('itemprop')?.split(/\s+/) ?? []
    if (!names.some((name) => PRICE_PROPERTIES.has(name))) continue
    const text = element.attributes.get('content') ?? elementTextLine(element, 100)
    if (names.includes('priceCurrency')) {
      const own = parseCurrencyCode(text)
      currency = own ?? currency
      for (const one of open) one.currency ??= own
    }
    if (names.every((name) => name === 'priceCurrency' || !PRICE_PROPERTIES.has(name))) continue
    if (open.length === MAX_PAGE_PRICES) break
    // The currency may be before or after the price.
    open.push({ currency: parseMoneyAmounts(text)[0]?.currency ?? currency, text })
  }
  for (const one of open) {
    const amount = parseOfferAmount(one.text, one.currency)
    if (amount !== null) prices.push({ amount, currency: one.currency, source: 'microdata' })
  }
  return prices
}

function metaPrices(root: HtmlElement): PagePrice[] {
  const amounts: string[] = []
  let currency: string | null = null
  for (const { name, attributes } of descendantElements(root)) {
    if (name !== 'meta') continue
    const property = attributes.get('property') ?? attributes.get('name') ?? ''
    const content = attributes.get('content') ?? ''
    if (META_CURRENCY_PROPERTIES.has(property)) currency ??= parseCurrencyCode(content)
    if (META_PRICE_PROPERTIES.has(property) && amounts.length < MAX_PAGE_PRICES)
      amounts.push(content)
  }
  return amounts.flatMap((written) => {
    const amount = parseOfferAmount(written, currency)
    return amount === null ? [] : [{ amount, currency, source: 'meta' as const }]
  })
}
