/** An amount of money as written in a page. */
export interface PageMoneyAmount {
  readonly amount: number
  readonly currency: string | null
}

const CURRENCY_BY_SIGN: Readonly<Record<string, string>> = {
  $: 'USD',
  us$: 'USD',
  ca$: 'CAD',
  c$: 'CAD',
  a$: 'AUD',
  au$: 'AUD',
  nz$: 'NZD',
  hk$: 'HKD',
  s$: 'SGD',
  r$: 'BRL',
  mx$: 'MXN',
  '€': 'EUR',
  '£': 'GBP',
  '¥': 'JPY',
  '₹': 'INR',
  '₩': 'KRW',
  '₽': 'RUB',
  '₺': 'TRY',
  '₴': 'UAH',
  '₪': 'ILS',
  '฿': 'THB',
  '₫': 'VND',
  '₿': 'BTC',
  zł: 'PLN',
  kč: 'CZK',
  kr: 'SEK',
}
const CURRENCY_CODES =
  'USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|HKD|SGD|INR|CNY|KRW|BRL|MXN|SEK|NOK|DKK|PLN|CZK|HUF|RON|TRY|UAH|RUB|ILS|AED|ZAR|THB|USDC|USDT|ETH|BTC|SOL'
const CURRENCY_SIGN = String.raw`(?:(?:US|CA|AU|NZ|HK|MX|C|A|S|R)?\$|[€£¥₹₩₽₺₴₪฿₫₿])`
/** Matches groups of three separated by a comma, dot, apostrophe or space; Indian groups; or plain digits. */
const AMOUNT_NUMBER = String.raw`(?:\d{1,3}(?:[,.'’ \u00a0\u202f]\d{3}){1,5}(?:[.,]\d{1,2})?|\d{1,2}(?:,\d{2}){1,4},\d{3}(?:\.\d{1,2})?|\d{1,9}(?:[.,]\d{1,8})?)(?![.,]?\d)`
const GAP = String.raw`[ \u00a0\u202f]?`
const PRICE = new RegExp(
  String.raw`(?<![\w.,])(?:(${CURRENCY_SIGN}|\b(?:${CURRENCY_CODES})(?!\p{L}))${GAP}(${AMOUNT_NUMBER})|(${AMOUNT_NUMBER})(?:,[-–—])?${GAP}(${CURRENCY_SIGN}|(?:zł|Kč|kr)(?!\p{L})|(?:${CURRENCY_CODES})\b))` +
    // a company's revenue is no price
    String.raw`(?!${GAP}(?:[KkMmBb]n?\b|thousand|million|billion|trillion|Mio|Mrd))`,
  'gu',
)
const MAX_AMOUNTS = 200
/** Larger values are implausible and not exact. */
const MAX_AMOUNT_VALUE = 1e15

/** Returns every amount in a text, including repeats. */
export function parseMoneyAmounts(text: string): PageMoneyAmount[] {
  const found: PageMoneyAmount[] = []
  for (const [, before, one, other, behind] of text.matchAll(PRICE)) {
    const sign = (before ?? behind ?? '').toLowerCase()
    const currency = CURRENCY_BY_SIGN[sign] ?? sign.toUpperCase()
    const amount = parseMoneyNumber(one ?? other ?? '', currency)
    if (amount === null) continue
    found.push({ amount, currency })
    if (found.length === MAX_AMOUNTS) break
  }
  return found
}

/** Currencies in which a dot before three digits is a decimal point. */
const DOT_IS_FRACTION = new Set(
  'USD GBP CAD AUD NZD HKD SGD JPY CNY INR USDC USDT ETH BTC SOL'.split(' '),
)

/** Parses `1,234.56`, `1.234,56`, `1 234,56`, `1'234.50` and plain numbers; returns null for other text. */
export function parseMoneyNumber(written: string, currency: string | null): number | null {
  const bare = written.replace(/[\s'’]/g, '')
  return /^\d[\d.,]{0,40}$/.test(bare)
    ? toPlausibleMoneyAmountOrNull(parseGroupedNumber(bare, currency))
    : null
}

/** Returns null for an implausible amount. */
export const toPlausibleMoneyAmountOrNull = (value: number): number | null =>
  Number.isFinite(value) && value >= 0 && value < MAX_AMOUNT_VALUE ? value : null

/** Returns NaN for inconsistent separators. */
function parseGroupedNumber(bare: string, currency: string | null): number {
  const [dot, comma] = [bare.lastIndexOf('.'), bare.lastIndexOf(',')]
  const last = Math.max(dot, comma)
  if (last < 0) return Number(bare)
  const mark = bare[last] ?? ''
  const other = mark === '.' ? ',' : '.'
  const behind = bare.length - last - 1
  const alone = !bare.includes(other) && bare.indexOf(mark) === last
  const repeated = bare.indexOf(mark) !== last
  const groups = behind === 3 && alone && !bare.startsWith('0') && !isFractionMark(mark, currency)
  if (repeated || groups) return Number(bare.replaceAll(mark, '').replace(other, '.'))
  return Number(bare.slice(0, last).replaceAll(other, '') + '.' + bare.slice(last + 1))
}

const isFractionMark = (mark: string, currency: string | null): boolean =>
  mark === '.' && (currency === null || DOT_IS_FRACTION.has(currency))
