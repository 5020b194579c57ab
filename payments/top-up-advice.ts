import { DAY, HOUR, MINUTE } from '../core/clock.ts'
import { SUGGESTED_DEPOSITS } from '../domain/agent-funding-info-and-instructions.ts'
import { fromUsdc, asMicros, toUsdc, ZERO_MICROS, type Micros } from '../core/money.ts'
import type { AgentSpendingReport } from '../persistence/account-statement/agent-spending-report-store.ts'

/** Top-up advice for an operator, computed from an agent's usage. */
export interface TopUpAdvice {
  readonly balance: Micros
  readonly spent: Micros
  /** Days of usage: the whole window, or since the agent's creation. */
  readonly days: number
  /** `too_short`: less than a day of usage, so there is no rate. */
  readonly basis: 'usage' | 'too_short'
  /** Null if it spends but was observed for less than a day. */
  readonly perDay: Micros | null
  /** Null if it spends nothing, or no rate is known. */
  readonly daysLeft: number | null
  readonly topUp: Micros
  readonly tools: AgentSpendingReport['tools']
}

/** The observed usage, and how long a top-up should last. */
export const SPENDING_ADVICE_WINDOW_DAYS = 7
const TOP_UP_DAYS = 30n
const USDC = fromUsdc(1)

/**
 * Computes the rate of the last days and the smallest suggested amount that lasts a month. There is
 * no rate before a full day of usage.
 */
export function computeSpendRateAndTopUp(
  spending: AgentSpendingReport,
  balance: Micros,
  { now, bornAt }: { now: number; bornAt: number },
): TopUpAdvice {
  const since = Math.max(spending.from.getTime(), bornAt)
  const seen = Math.max(0, now - since)
  const tooShort = seen < DAY
  const perDay = tooShort
    ? spending.spent === ZERO_MICROS
      ? ZERO_MICROS
      : null
    : asMicros((spending.spent * 24n) / BigInt(Math.round(seen / HOUR)))
  const daysLeft =
    perDay === null || perDay === ZERO_MICROS ? null : Number((balance * 10n) / perDay) / 10
  const wanted = (perDay ?? ZERO_MICROS) * TOP_UP_DAYS - balance
  return {
    balance,
    spent: spending.spent,
    days: Math.round((seen / DAY) * 100) / 100,
    basis: tooShort ? 'too_short' : 'usage',
    perDay,
    daysLeft,
    topUp: suggestTopUp(wanted),
    tools: spending.tools,
  }
}

function suggestTopUp(wanted: bigint): Micros {
  const fits = SUGGESTED_DEPOSITS.find((amount) => amount >= wanted)
  return fits ?? asMicros(((wanted + USDC - 1n) / USDC) * USDC)
}

/** The advice as text for an operator. */
export function formatTopUpAdvice(
  name: string,
  advice: TopUpAdvice,
  fundingSentence: string,
): string {
  const { balance, spent, days, perDay, daysLeft, topUp, tools } = advice
  const most = tools
    .slice(0, 3)
    .map(
      ({ tool, calls, cost }) =>
        `${tool} (${calls} ${calls === 1 ? 'call' : 'calls'}, ${toUsdc(cost)} USDC)`,
    )
  const used = most.length === 0 ? '' : ` It used ${most.join(', ')}.`
  const span = formatDays(days)
  if (perDay === null)
    return [
      `Your agent ${name} spent ${toUsdc(spent)} USDC in its first ${span}.${used}`,
      `It has ${toUsdc(balance)} USDC left; how long that lasts cannot be said before a day of use.`,
      fundingSentence,
    ].join(' ')
  if (daysLeft === null)
    return `Your agent ${name} spent nothing in the last ${span} and has ${toUsdc(balance)} USDC.${used} ${fundingSentence}`
  return [
    `Your agent ${name} spent ${toUsdc(spent)} USDC in the last ${span}: ${toUsdc(perDay)} USDC a day.${used}`,
    `It has ${toUsdc(balance)} USDC left, enough for about ${daysLeft} days. Suggested top-up: ${toUsdc(topUp)} USDC.`,
    fundingSentence,
  ].join(' ')
}

/** Formats a duration in days, or in minutes or hours below one day. */
function formatDays(days: number): string {
  const [minutes, hours] = [Math.round((days * DAY) / MINUTE), Math.round(days * 24)]
  const tenths = Math.round(days * 10) / 10
  if (days >= 1) return tenths === 1 ? 'day' : `${tenths} days`
  if (hours >= 1) return hours === 1 ? 'hour' : `${hours} hours`
  return minutes <= 1 ? 'minutes' : `${minutes} minutes`
}
