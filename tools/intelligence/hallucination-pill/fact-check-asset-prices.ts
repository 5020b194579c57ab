import type { CoinPriceService } from '../../../providers/prices/asset-price-service.ts'
import { PRICE_SOURCE_IDS_BY_SYMBOL } from '../../../providers/prices/price-source-ids-by-symbol.ts'
import { fetchCoinUsdPrices } from '../../../providers/prices/usd-prices.ts'
import {
  exactFinding,
  approximateFinding,
  normalizeName,
  unverifiableFinding,
  type FactClaimCheckFunction,
  type FactCheckFinding,
  type FactCheckContext,
} from './fact-claim-normalizer-and-finding-types.ts'
import { matchesQuantity, parseClaimedQuantity } from './claimed-quantity.ts'

/** Checks claims about asset prices. */

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
const MORE_OR_LESS = new RegExp(
  `^${ASSET} is (?:worth |priced )?(more|less)(?: expensive)? than ${ASSET}$`,
  'i',
)
const CHEAPER = new RegExp(`^${ASSET} is (cheaper|dearer|pricier) than ${ASSET}$`, 'i')
const DOLLARS =
  /^(?:usdc?|us dollars?|dollars?|\$|bucks)? ?(?:each|per (?:coin|token|unit))? ?(?:now|today|right now|at the moment|currently)?$/i
const TOLERANCE = { is: 0.02, about: 0.1 }

const NAMES: ReadonlyMap<string, string> = new Map([
  ...[...PRICE_SOURCE_IDS_BY_SYMBOL].map(
    ([symbol, { coingecko }]) => [normalizeName(coingecko), symbol] as const,
  ),
  ...[...PRICE_SOURCE_IDS_BY_SYMBOL.keys()].map(
    (symbol) => [symbol.toLowerCase(), symbol] as const,
  ),
  ['ether', 'ETH'],
  ['ripple', 'XRP'],
  ['tether', 'USDT'],
  ['usd coin', 'USDC'],
  ['bnb', 'BNB'],
])
const symbolOf = (name: string): string | undefined => NAMES.get(normalizeName(name))

/** Checks current prices; a claim about another time is not checked. */
export const factCheckAssetPrices: FactClaimCheckFunction = async (claim, claimContext) =>
  (await checkPriceComparison(claim, claimContext)) ?? checkPrice(claim, claimContext)

async function checkPrice(
  claim: string,
  claimContext: FactCheckContext,
): Promise<FactCheckFinding | null> {
  for (const form of FORMS) {
    const [, asset = '', text = ''] = form.exec(claim) ?? []
    const [symbol, claimed] = [symbolOf(asset), parseClaimedQuantity(text)]
    if (symbol === undefined || claimed === null) continue
    // `Bitcoin is 17 years old` is not about its price.
    if (
      !DOLLARS.test(claimed.unit) ||
      (!/\$|usd|dollar|bucks/i.test(text) && !/price|cost|worth|trad|sell/i.test(claim))
    )
      continue
    const quote = await quoteOf(claimContext.prices, symbol, claimContext.signal)
    if (quote === null)
      return unverifiableFinding('prices', `There is no fresh price of ${symbol}.`)
    const holds = matchesQuantity(claimed, quote.usd, TOLERANCE)
    const margin = claimed.mode === 'about' ? '10 %' : '2 %'
    return holds === null
      ? null
      : approximateFinding(
          holds,
          quote.usd,
          quote.source,
          `USD just now; compared within ${margin}.`,
        )
  }
  return null
}

async function quoteOf(prices: CoinPriceService, symbol: string, signal: AbortSignal) {
  const usd = await fetchCoinUsdPrices(prices, [symbol], signal)
  const found = usd(symbol)
  if (found === null) return null
  const quote = (await prices.quote([symbol], signal)).get(symbol)
  return quote == null || quote.stale ? null : { usd: found, source: quote.source }
}

async function checkPriceComparison(
  claim: string,
  { prices, signal }: FactCheckContext,
): Promise<FactCheckFinding | null> {
  const [, one = '', word = '', other = ''] = MORE_OR_LESS.exec(claim) ?? CHEAPER.exec(claim) ?? []
  const [first, second] = [symbolOf(one), symbolOf(other)]
  if (first === undefined || second === undefined || first === second) return null
  const usd = await fetchCoinUsdPrices(prices, [first, second], signal)
  const [a, b] = [usd(first), usd(second)]
  if (a === null || b === null) return unverifiableFinding('prices', 'One of both has no price.')
  const says = /less|cheaper/i.test(word) ? a < b : a > b
  return exactFinding(says, `${first} ${a}, ${second} ${b}`, 'prices', 'USD a coin, just now.')
}
