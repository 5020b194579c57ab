import { DAY, utcDay } from '../../core/clock.ts'
import { sumMicros, toUsdc, type Micros } from '../../core/money.ts'
import { toSingleLine } from '../../domain/notification-channel-types.ts'
import type { AgentPeriodFigures } from '../../persistence/account-statement/weekly-digest-figures.ts'
import type { OwnerAlertText } from './owner-alert-texts.ts'

/** Writes the weekly digest of an agent. */

export interface WeeklyDigest {
  readonly agentId: string
  readonly name: string
  readonly from: Date
  /** Exclusive. */
  readonly to: Date
  readonly figures: AgentPeriodFigures
  readonly publicUrl: string
  readonly unsubscribeUrl: string
}

const MAX_TOOLS = 15
const MAX_FUSES = 10

const EARNING_WORDS: Readonly<Record<string, string>> = {
  share: 'shares of calls of other agents',
  royalty: 'royalties of the Hive',
  sale: 'sales in the marketplace',
  bounty: 'bounties',
  tip: 'tips',
  payout: 'payouts of referrals',
  referral: 'rewards for referred agents',
}

/** Whether there is nothing to say. */
export const isQuietWeek = ({ spending, earnings, fuses }: AgentPeriodFigures): boolean =>
  spending.length === 0 && earnings.length === 0 && fuses.length === 0

export function formatWeeklyDigest(digest: WeeklyDigest): OwnerAlertText {
  const { agentId, from, to, figures, publicUrl, unsubscribeUrl } = digest
  const { balance, spending, earnings, fuses } = figures
  const name = toSingleLine(digest.name, 100)
  const spent = sumMicros(spending.map(({ cost }) => cost))
  const calls = spending.reduce((sum, one) => sum + one.calls, 0)
  const tripped = fuses.reduce((sum, { times }) => sum + times, 0)
  const days = `${utcDay(from.getTime())} to ${utcDay(to.getTime() - DAY)}`
  const body = [
    `Your agent ${name} (${agentId}), ${days} (UTC).`,
    `Balance at the end: ${usdc(balance)}`,
    section(`Spent on calls and purchases: ${usdc(spent)}, ${count(calls, 'call')}`, MAX_TOOLS, [
      ...spending.map((one) => `${one.tool}: ${usdc(one.cost)}, ${count(one.calls, 'call')}`),
    ]),
    section(`Earned: ${usdc(sumMicros(earnings.map(({ amount }) => amount)))}`, MAX_TOOLS, [
      ...earnings.map(({ kind, amount }) => `${EARNING_WORDS[kind] ?? kind}: ${usdc(amount)}`),
    ]),
    section(`Fuses tripped: ${tripped}`, MAX_FUSES, [
      ...fuses.map(({ backpackId, limit, times }) => `${backpackId}, ${limit}: ${times}`),
    ]),
    [
      `All of it, fuses and freeze: ${publicUrl}/owner`,
      `Add credits: ${publicUrl}/fund/${agentId}`,
      `No more digests: ${unsubscribeUrl}`,
    ].join('\n'),
  ].join('\n\n')
  return {
    subject: `${name} last week: ${usdc(spent)} spent, ${usdc(balance)} left`,
    body,
  }
}

const usdc = (amount: Micros): string => `${toUsdc(amount)} USDC`
const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`

/** A heading with its lines, the rest counted. */
function section(heading: string, most: number, lines: readonly string[]): string {
  const rest = lines.length - most
  return [
    heading,
    ...lines.slice(0, most).map((line) => `  ${line}`),
    ...(rest > 0 ? [`  and ${rest} more`] : []),
  ].join('\n')
}
