import { DAY } from '../core/clock.ts'
import { SUGGESTED } from '../core/funding.ts'
import { fromUsdc, micros, toUsdc, ZERO, type Micros } from '../core/money.ts'
import type { Spending } from '../persistence/spending.ts'

/** What an operator should know of an agent's money, from its usage. */
export interface Advice {
  readonly balance: Micros
  readonly spent: Micros
  /** Over so many days, at least one. */
  readonly days: number
  readonly perDay: Micros
  /** Null while it spends nothing. */
  readonly daysLeft: number | null
  readonly topUp: Micros
  readonly tools: Spending['tools']
}

/** The usage that counts, and how long a top-up should last. */
export const LOOKED_BACK_DAYS = 7
const SHOULD_LAST_DAYS = 30n
const USDC = fromUsdc(1)

/** Reads usage as advice: the rate of the last days, and the least suggested amount that lasts a month. */
export function adviceOf(
  spending: Spending,
  balance: Micros,
  { now, bornAt }: { now: number; bornAt: number },
): Advice {
  const since = Math.max(spending.from.getTime(), bornAt)
  const days = Math.max(1, (now - since) / DAY)
  const hours = BigInt(Math.round(days * 24))
  const perDay = micros((spending.spent * 24n) / hours)
  const daysLeft = perDay === ZERO ? null : Number((balance * 10n) / perDay) / 10
  const wanted = perDay * SHOULD_LAST_DAYS - balance
  return {
    balance,
    spent: spending.spent,
    days: Math.round(days * 10) / 10,
    perDay,
    daysLeft,
    topUp: suggested(wanted),
    tools: spending.tools,
  }
}

function suggested(wanted: bigint): Micros {
  const fits = SUGGESTED.find((amount) => amount >= wanted)
  return fits ?? micros(((wanted + USDC - 1n) / USDC) * USDC)
}

/** The advice as an operator reads it. */
export function adviceText(name: string, advice: Advice, fundingSentence: string): string {
  const { balance, spent, days, perDay, daysLeft, topUp, tools } = advice
  const most = tools
    .slice(0, 3)
    .map(({ tool, calls, cost }) => `${tool} (${calls} calls, ${toUsdc(cost)} USDC)`)
  const used = most.length === 0 ? '' : ` It used ${most.join(', ')}.`
  if (daysLeft === null)
    return `Your agent ${name} spent nothing in the last ${days} days and has ${toUsdc(balance)} USDC.${used} ${fundingSentence}`
  return [
    `Your agent ${name} spent ${toUsdc(spent)} USDC in the last ${days} days: ${toUsdc(perDay)} USDC a day.${used}`,
    `It has ${toUsdc(balance)} USDC left, enough for about ${daysLeft} days. Suggested top-up: ${toUsdc(topUp)} USDC.`,
    fundingSentence,
  ].join(' ')
}
