import { fundingSentence, type FundingOptions } from '../core/funding.ts'
import { fromUsdc, toUsdc } from '../core/money.ts'
import { oneLine, type ChannelName } from '../core/notices.ts'
import { CRITICAL_BALANCE, WARNING_BALANCE } from '../core/prices.ts'
import type { Owner } from '../persistence/alerts.ts'
import type { Fact } from '../persistence/fan-out.ts'

/** The levels a balance may fall to; each is told on its channels. */
export type Level = 'warning' | 'critical'

export const CHANNELS_OF: Record<Level, readonly ChannelName[]> = {
  warning: ['email'],
  critical: ['email', 'telegram'],
}

export interface Text {
  readonly subject: string
  readonly body: string
}

/**
 * The level that a `low_balance` fact crosses downward; null when it crosses none: from critical to
 * empty no threshold lies in between.
 */
export function crossedBy({ data }: Pick<Fact, 'data'>): Level | null {
  const { tier, from } = data
  if (tier === 'warning') return 'warning'
  if (tier === 'critical') return 'critical'
  return tier === 'empty' && from !== 'critical' ? 'critical' : null
}

export function lowBalance(level: Level, fact: Fact, owner: Owner, funding: FundingOptions): Text {
  const threshold = toUsdc(level === 'warning' ? WARNING_BALANCE : CRITICAL_BALANCE)
  const { balance_usdc: balance } = fact.data
  const left = typeof balance === 'number' ? toUsdc(fromUsdc(balance)) : 0
  const urgency = level === 'critical' ? 'is about to stop' : 'runs low on credits'
  return {
    subject: `${owner.name} ${urgency}: ${left} USDC left`,
    body: [
      `Your agent ${owner.name} (${fact.agentId}) has ${left} USDC left, at or below ${threshold} USDC.`,
      fundingSentence(funding),
    ].join('\n\n'),
  }
}

/** Facts that an owner is told of whatever the balance; one line a type. */
export const NOTICES: Readonly<
  Record<string, (fact: Fact, owner: Owner, funding: FundingOptions) => Text>
> = {
  'webhook.disabled': ({ agentId, data }, { name }) => ({
    subject: `A webhook of ${name} has been disabled`,
    body: `The webhook ${plain(data['webhook_id'])} of your agent ${name} (${agentId}) at ${plain(data['url'])} gets nothing any more: ${DISABLED[plain(data['reason'])] ?? plain(data['reason'])}. What waits for it is kept for a while: POST /api/webhook/${plain(data['webhook_id'])}/enable takes it up again.`,
  }),
  'schedule.paused': ({ agentId, data }, { name }, funding) => {
    const ended = ENDED[plain(data['reason'])]
    const why =
      ended ??
      `its credits do not pay the next run of ${plain(data['tool'])}. ${fundingSentence(funding)}`
    return {
      subject: `A schedule of ${name} has stopped`,
      body: `The schedule ${plain(data['name'])} (${plain(data['schedule_id'])}) of your agent ${name} (${agentId}) was paused: ${why}`,
    }
  },
  'wallet.exported': ({ agentId, data }, { name }) => ({
    subject: `The wallet of ${name} was exported`,
    body: `The private key of the wallet ${plain(data['wallet_address'])} of your agent ${name} (${agentId}) was handed out. Its new deposit address is ${plain(data['new_wallet_address'])}. If this was not you, revoke its API keys.`,
  }),
}

const GO_ON =
  'To let it go on, enable it with a key of yours: PATCH /api/task/schedule/{id} {"enabled": true}.'
const ENDED: Record<string, string> = {
  key_revoked: `the key it ran under has been revoked. ${GO_ON}`,
  key_expired: `the key it ran under has expired. ${GO_ON}`,
  REVOKED: 'the Backpack its runs act in has been revoked.',
}

const DISABLED: Record<string, string> = {
  gone: 'it answered 410 Gone',
  failing: 'it took nothing for five days',
}

/** One line of a digest, or the whole of a message, about what a Backpack's pager tells. */
export function pagedLine({ type, data, at }: Fact): string {
  const { tool, cost_usdc: cost, code, ...rest } = data
  const parts = [
    typeof tool === 'string' ? tool : null,
    typeof cost === 'number' ? `${cost} USDC` : null,
    typeof code === 'string' ? code : null,
    ...SHOWN.flatMap((name) => (name in rest ? [`${name} ${plain(rest[name])}`] : [])),
  ].filter((part) => part !== null)
  return oneLine(`${at.toISOString()} ${type} ${parts.join(', ')}`, 300)
}
const SHOWN = ['limit', 'window', 'limit_usdc', 'spent_usdc', 'balance_usdc', 'tier', 'days']

/** Values of facts are ours; what they hold of a caller's is kept on one line. */
function plain(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? oneLine(String(value), 300) : '-'
}
