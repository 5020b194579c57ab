import { LIMITS } from '../../../core/limits.ts'
import {
  PLATFORM_FEE_BPS,
  SIGNAL_PRICE,
  MIN_BOUNTY_REWARD,
  TIP_FEE_BPS,
} from '../../../domain/pricing.ts'
import { toUsdc } from '../../../core/money.ts'
import type { CatalogueEntry } from '../../tool-ports.ts'
import {
  exactFinding,
  normalizeName,
  type FactClaimCheckFunction,
  type FactCheckFinding,
} from './fact-claim-normalizer-and-finding-types.ts'
import { matchesQuantityExactly, parseClaimedQuantity } from './claimed-quantity.ts'

/** Checks claims about this station. */

const SOURCE = 'this station'
const TOOL = String.raw`(?:the )?(?:tool )?([a-z][a-z0-9_ -]{2,40}?)(?: tool)?`
const COSTS = [
  new RegExp(`^(?:a call of |calling )?${TOOL} (?:costs|is priced at|is sold for) (.+)$`, 'i'),
  new RegExp(`^(?:the )?(?:price|cost) of ${TOOL} is (.+)$`, 'i'),
]
const FREE = new RegExp(`^${TOOL} is (?:a )?free(?: tool)?(?: to use)?$`, 'i')
const FREE_CALLS = new RegExp(
  `^${TOOL} (?:allows|gives|has|offers|includes) (\\d+) free (?:calls|uses|checks) (?:a|per|each) day$`,
  'i',
)
const DOLLARS = /^(?:usdc?|dollars?|us dollars?)? ?(?:(?:a|per|each) (?:call|use|run))?$/i

/** Limits and shares of the station by the words of claims. */
const STATION_LIMIT_CLAIMS: readonly (readonly [RegExp, string, string])[] = [
  [
    /^(?:the )?(?:platform|treasury) fee (?:of (?:native )?tools )?is (.+)$/i,
    String(Number(PLATFORM_FEE_BPS) / 100),
    '%',
  ],
  [
    /^(?:the )?(?:fee (?:of|for|on) (?:a )?tips?|tip(?:ping)? fee) is (.+)$/i,
    String(Number(TIP_FEE_BPS) / 100),
    '%',
  ],
  [
    /^(?:the )?(?:minimum|smallest) bounty (?:reward )?is (.+)$/i,
    String(toUsdc(MIN_BOUNTY_REWARD)),
    'usdc',
  ],
  [/^publishing a signal costs (.+)$/i, String(toUsdc(SIGNAL_PRICE)), 'usdc'],
  [
    /^a pipeline (?:takes|can make|has|allows) (?:up to |at most )?(\d+ calls)$/i,
    String(LIMITS.pipelineCalls),
    'calls',
  ],
  [
    /^an agent can (?:have|keep) (?:up to |at most )?(\d+ (?:hive )?watches)$/i,
    String(LIMITS.hiveWatches),
    'watches',
  ],
  [
    /^an agent can (?:have|keep) (?:up to |at most )?(\d+ schedules)$/i,
    String(LIMITS.schedules),
    'schedules',
  ],
]

/** Checks the prices and limits that are charged here. */
export const factCheckStationPrices: FactClaimCheckFunction = (claim, { catalogue }) => {
  const entries = catalogue.entries()
  const named = (text: string) =>
    entries.find(
      (entry) =>
        normalizeName(entry.slug) === normalizeName(text) ||
        normalizeName(entry.name) === normalizeName(text),
    )
  for (const form of COSTS) {
    const [, name = '', claimed = ''] = form.exec(claim) ?? []
    const entry = named(name)
    if (entry !== undefined) return costs(entry, claimed)
  }
  const free = named(FREE.exec(claim)?.[1] ?? '')
  if (free !== undefined) {
    const is = free.access !== 'paid'
    return exactFinding(
      is,
      is ? `free (${free.access})` : `${free.price_usdc} USDC`,
      SOURCE,
      `The catalogue's entry of ${free.slug}.`,
    )
  }
  const [, tool = '', calls] = FREE_CALLS.exec(claim) ?? []
  const tiered = named(tool)
  if (tiered !== undefined) {
    const has = tiered.free_tier?.calls_per_day ?? 0
    return exactFinding(
      has === Number(calls),
      has,
      SOURCE,
      `Free calls of ${tiered.slug} a UTC day and address.`,
    )
  }
  return limits(claim)
}

function costs(
  { slug, price_usdc, free_tier }: CatalogueEntry,
  claimed: string,
): FactCheckFinding | null {
  if (/^nothing$/i.test(claimed))
    return exactFinding(price_usdc === 0, price_usdc, SOURCE, `USDC a call of ${slug}.`)
  const quantity = parseClaimedQuantity(claimed)
  if (quantity === null || !DOLLARS.test(quantity.unit)) return null
  // A tool with free calls has two prices, and both are right.
  const prices = [price_usdc, free_tier?.overage_price_usdc ?? price_usdc]
  const holds = prices.some(
    (price) =>
      matchesQuantityExactly(quantity, String(price))?.exact === true &&
      matchesQuantityExactly(quantity, String(price))?.holds === true,
  )
  return exactFinding(holds, prices.at(-1) ?? price_usdc, SOURCE, `USDC a call of ${slug}.`)
}

function limits(claim: string): FactCheckFinding | null {
  for (const [form, value, unit] of STATION_LIMIT_CLAIMS) {
    const claimed = form.exec(claim)?.[1]
    const quantity = claimed === undefined ? null : parseClaimedQuantity(claimed)
    const fit = quantity === null ? null : matchesQuantityExactly(quantity, value)
    if (fit !== null)
      return exactFinding(fit.holds, `${value} ${unit}`, SOURCE, 'A limit of this station.')
  }
  return null
}
