import type { Prices } from '../prices/prices.ts'
import { LISTINGS } from '../prices/symbols.ts'
import { usdOf } from '../prices/usd.ts'
import {
  exactly,
  nearly,
  plain,
  unknowable,
  type Checker,
  type Finding,
  type World,
} from './claim.ts'
import { fits, quantityOf } from './quantity.ts'

const ASSET = String.raw`(?:one |an? |1 )?([a-z0-9][a-z0-9 .-]{0,30}?)`
const FORMS = [
  new RegExp(
    `^(?:the )?(?:current |spot |market |live )*(?:price|value|rate) of ${ASSET} (?:is|stands at|sits at)(?: currently| now| at)* (.+)$`,
    'i',
  ),
  new RegExp(
    `^${ASSET}(?:'s)? (?:(?:current |spot |market )*price )?(?:is(?: currently| now)*(?: trading| priced| worth| valued)?(?: at)?|=|equals|costs|trades(?: currently)?(?: at)?|sells for|stands at)(?: currently| now)* (.+)$`,
    'i',
  ),
]
const DEARER = new RegExp(
  `^${ASSET} is (?:worth |priced )?(more|less)(?: expensive)? than ${ASSET}$`,
  'i',
)
const CHEAPER = new RegExp(`^${ASSET} is (cheaper|dearer|pricier) than ${ASSET}$`, 'i')
const DOLLARS =
  /^(?:usdc?|us dollars?|dollars?|\$|bucks)? ?(?:each|per (?:coin|token|unit))? ?(?:now|today|right now|at the moment|currently)?$/i
const TOLERANCE = { is: 0.02, about: 0.1 }

const NAMES: ReadonlyMap<string, string> = new Map([
  ...[...LISTINGS].map(([symbol, { coingecko }]) => [plain(coingecko), symbol] as const),
  ...[...LISTINGS.keys()].map((symbol) => [symbol.toLowerCase(), symbol] as const),
  ['ether', 'ETH'],
  ['ripple', 'XRP'],
  ['tether', 'USDT'],
  ['usd coin', 'USDC'],
  ['bnb', 'BNB'],
])
const symbolOf = (name: string): string | undefined => NAMES.get(plain(name))

/** What assets cost right now; a price that is told of another time is another claim. */
export const market: Checker = async (claim, world) =>
  (await against(claim, world)) ?? price(claim, world)

async function price(claim: string, world: World): Promise<Finding | null> {
  for (const form of FORMS) {
    const [, asset = '', text = ''] = form.exec(claim) ?? []
    const [symbol, said] = [symbolOf(asset), quantityOf(text)]
    if (symbol === undefined || said === null) continue
    // `Bitcoin is 17 years old` is about something else.
    if (
      !DOLLARS.test(said.unit) ||
      (!/\$|usd|dollar|bucks/i.test(text) && !/price|cost|worth|trad|sell/i.test(claim))
    )
      continue
    const quote = await quoteOf(world.prices, symbol, world.signal)
    if (quote === null) return unknowable('prices', `There is no fresh price of ${symbol}.`)
    const holds = fits(said, quote.usd, TOLERANCE)
    const margin = said.mode === 'about' ? '10 %' : '2 %'
    return holds === null
      ? null
      : nearly(holds, quote.usd, quote.source, `USD just now; compared within ${margin}.`)
  }
  return null
}

async function quoteOf(prices: Prices, symbol: string, signal: AbortSignal) {
  const usd = await usdOf(prices, [symbol], signal)
  const found = usd(symbol)
  if (found === null) return null
  const quote = (await prices.quote([symbol], signal)).get(symbol)
  return quote == null || quote.stale ? null : { usd: found, source: quote.source }
}

async function against(claim: string, { prices, signal }: World): Promise<Finding | null> {
  const [, one = '', word = '', other = ''] = DEARER.exec(claim) ?? CHEAPER.exec(claim) ?? []
  const [first, second] = [symbolOf(one), symbolOf(other)]
  if (first === undefined || second === undefined || first === second) return null
  const usd = await usdOf(prices, [first, second], signal)
  const [a, b] = [usd(first), usd(second)]
  if (a === null || b === null) return unknowable('prices', 'One of both has no price.')
  const says = /less|cheaper/i.test(word) ? a < b : a > b
  return exactly(says, `${first} ${a}, ${second} ${b}`, 'prices', 'USD a coin, just now.')
}
