import {
  fundingInstructions,
  type FundingInstructionsInput,
} from '../../domain/agent-funding-info-and-instructions.ts'
import { fromUsdc, toUsdc } from '../../core/money.ts'
import {
  toSingleLine,
  type NotificationChannelName,
} from '../../domain/notification-channel-types.ts'
import { CRITICAL_BALANCE_MICROS, WARNING_BALANCE_MICROS } from '../../domain/pricing.ts'
import type { AgentOwnerContact } from '../../persistence/notifications/owner-alert-store.ts'
import type { OutboxEvent } from '../../persistence/webhooks/outbox-event-routing-store.ts'

/** Balance levels with an alert, and their channels. */
export type LowBalanceLevel = 'warning' | 'critical'

export const LOW_BALANCE_CHANNELS: Record<LowBalanceLevel, readonly NotificationChannelName[]> = {
  warning: ['email'],
  critical: ['email', 'telegram'],
}

export interface OwnerAlertText {
  readonly subject: string
  readonly body: string
}

/**
 * The level that a `low_balance` event crosses, or null. There is no threshold between critical and
 * empty.
 */
export function findCrossedBalanceLevel({
  data,
}: Pick<OutboxEvent, 'data'>): LowBalanceLevel | null {
  const { tier, from } = data
  if (tier === 'warning') return 'warning'
  if (tier === 'critical') return 'critical'
  return tier === 'empty' && from !== 'critical' ? 'critical' : null
}

export function formatLowBalanceAlert(
  level: LowBalanceLevel,
  fact: OutboxEvent,
  owner: AgentOwnerContact,
  funding: FundingInstructionsInput,
): OwnerAlertText {
  const threshold = toUsdc(level === 'warning' ? WARNING_BALANCE_MICROS : CRITICAL_BALANCE_MICROS)
  const { balance_usdc: balance } = fact.data
  const left = typeof balance === 'number' ? toUsdc(fromUsdc(balance)) : 0
  const urgency = level === 'critical' ? 'is about to stop' : 'runs low on credits'
  return {
    subject: `${owner.name} ${urgency}: ${left} USDC left`,
    body: [
      `Your agent ${owner.name} (${fact.agentId}) has ${left} USDC left, at or below ${threshold} USDC.`,
      fundingInstructions(funding),
    ].join('\n\n'),
  }
}

/** Events that owners are always alerted of, by type. */
export const OWNER_ALERT_FORMATTERS: Readonly<
  Record<
    string,
    (
      fact: OutboxEvent,
      owner: AgentOwnerContact,
      funding: FundingInstructionsInput,
    ) => OwnerAlertText
  >
> = {
  'webhook.disabled': ({ agentId, data }, { name }) => ({
    subject: `A webhook of ${name} has been disabled`,
    body: `The webhook ${toDisplayText(data['webhook_id'])} of your agent ${name} (${agentId}) at ${toDisplayText(data['url'])} gets nothing any more: ${WEBHOOK_DISABLE_REASONS[toDisplayText(data['reason'])] ?? toDisplayText(data['reason'])}. What waits for it is kept for a while: POST /api/webhook/${toDisplayText(data['webhook_id'])}/enable takes it up again.`,
  }),
  'schedule.paused': ({ agentId, data }, { name }, funding) => {
    const ended = SCHEDULE_PAUSE_REASONS[toDisplayText(data['reason'])]
    const why =
      ended ??
      `its credits do not pay the next run of ${toDisplayText(data['tool'])}. ${fundingInstructions(funding)}`
    return {
      subject: `A schedule of ${name} has stopped`,
      body: `The schedule ${toDisplayText(data['name'])} (${toDisplayText(data['schedule_id'])}) of your agent ${name} (${agentId}) was paused: ${why}`,
    }
  },
  'tool.judged': ({ agentId, data }, { name }) => {
    const [tool, state] = [toDisplayText(data['tool']), toDisplayText(data['state'])]
    const verdict = TOOL_REVIEW_VERDICTS[toDisplayText(data['review'])]
    const outcome = verdict ?? `is ${state}`
    const reason = typeof data['reason'] === 'string' ? ` ${toDisplayText(data['reason'])}` : ''
    const why =
      verdict === undefined
        ? `${toDisplayText(data['successes'])} of ${toDisplayText(data['calls'])} counted calls of the last seven days succeeded.${TOOL_STATE_ADVICE[state] ?? ''}`
        : `The operator has reviewed it.${reason}`
    return {
      subject: `The tool ${tool} of ${name} ${outcome}`,
      body: `The tool ${tool} that your agent ${name} (${agentId}) sells ${outcome}. ${why} What failed: GET /api/builder.`,
    }
  },
  'agent.frozen': ({ agentId, data }, { name }) => ({
    subject: `${name} is frozen`,
    body: `Your agent ${name} (${agentId}) is frozen since ${toDisplayText(data['frozen_at'])}: no key of it can spend or act. Deposits are still credited. To let it go on: POST /api/agent/unfreeze with a key that manages its keys, or gas unfreeze.`,
  }),
  'agent.unfrozen': ({ agentId }, { name }) => ({
    subject: `${name} goes on`,
    body: `Your agent ${name} (${agentId}) is not frozen any more: its keys can spend again. If this was not you, freeze it and revoke its keys.`,
  }),
  'wallet.exported': ({ agentId, data }, { name }) => ({
    subject: `The wallet of ${name} was exported`,
    body: `The private key of the wallet ${toDisplayText(data['wallet_address'])} of your agent ${name} (${agentId}) was handed out. Its new deposit address is ${toDisplayText(data['new_wallet_address'])}. If this was not you, revoke its API keys.`,
  }),
}

const REENABLE_INSTRUCTION =
  'To let it go on, enable it with a key of yours: PATCH /api/task/schedule/{id} {"enabled": true}.'
const SCHEDULE_PAUSE_REASONS: Record<string, string> = {
  key_revoked: `the key it ran under has been revoked. ${REENABLE_INSTRUCTION}`,
  key_expired: `the key it ran under has expired. ${REENABLE_INSTRUCTION}`,
  REVOKED: 'the Backpack its runs act in has been revoked.',
}

const TOOL_REVIEW_VERDICTS: Record<string, string> = {
  verified: 'has the mark verified',
  refused: 'does not get the mark verified',
}
const TOOL_STATE_ADVICE: Record<string, string> = {
  suspended:
    ' Nobody else can call it until you prove its endpoint anew: PATCH /api/tools/{slug} {"endpoint_url": …}.',
}

const WEBHOOK_DISABLE_REASONS: Record<string, string> = {
  gone: 'it answered 410 Gone',
  failing: 'it took nothing for five days',
}

/** A pager event as one line, for a digest or a single message. */
export function formatBackpackPagerEventLine({ type, data, at }: OutboxEvent): string {
  const { tool, cost_usdc: cost, code, ...rest } = data
  const parts = [
    typeof tool === 'string' ? tool : null,
    typeof cost === 'number' ? `${cost} USDC` : null,
    typeof code === 'string' ? code : null,
    ...PAGER_LINE_FIELDS.flatMap((name) =>
      name in rest ? [`${name} ${toDisplayText(rest[name])}`] : [],
    ),
  ].filter((part) => part !== null)
  return toSingleLine(`${at.toISOString()} ${type} ${parts.join(', ')}`, 300)
}
const PAGER_LINE_FIELDS = [
  'limit',
  'window',
  'limit_usdc',
  'spent_usdc',
  'balance_usdc',
  'tier',
  'days',
]

/** Reduces text from callers to one line. */
function toDisplayText(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number'
    ? toSingleLine(String(value), 300)
    : '-'
}
