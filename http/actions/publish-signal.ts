import type { ActorSystem } from '../../actors/aggregate-command-types.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc } from '../../core/money.ts'
import { SIGNAL_PRICE } from '../../domain/pricing.ts'
import type { Spender } from '../../payments/agent-call-admission-request-types.ts'
import {
  chargeFixedFeeCommand,
  type FixedFeeResult,
} from '../../payments/commands/fixed-fee-commands.ts'
import type {
  IdempotentReply,
  IdempotentRequest,
  IdempotentWrites,
} from '../../persistence/idempotency/idempotent-writes.ts'
import type { AgentProfileStore } from '../../persistence/agents/agent-profile-store.ts'
import {
  toSignalRow,
  type SignalStore,
  type SignalType,
} from '../../persistence/realtime/channel-signal-store.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import { toSpenderPreload } from './spender-preload.ts'
import {
  assertPlainChannelName,
  parseChannelName,
  findInboxChannelAgent,
  PULSES_CHANNEL,
} from '../../realtime/signal-channel-names.ts'
import { assertMaxBytes } from '../plugins/body-parser.ts'

/** A signal to publish, from REST or WebSocket. */
export interface SignalPublication {
  readonly channel: string
  readonly type: SignalType | undefined
  readonly payload: Record<string, unknown> | undefined
  readonly ttlSeconds: number | undefined
}

/** The publishing agent and the spending limits that apply to it. */
export interface SignalPublishingAgent extends Spender {
  readonly agentId: string
}

export interface PublishSignalDeps {
  readonly actors: ActorSystem
  readonly once: IdempotentWrites
  readonly clock: { now(): number }
  readonly profiles: Pick<AgentProfileStore, 'has'>
  readonly signals: Pick<SignalStore, 'idOf'>
  readonly promoTransferable: boolean
}

/**
 * Publishes a signal. Its charge and its row are one commit. The id that orders streams is assigned in the
 * commit and read after it, so a repeated request gets the same id.
 */
export function createPublishSignal(parts: PublishSignalDeps) {
  const { actors, once, clock, profiles, signals, promoTransferable } = parts
  return async function publish(
    idempotentRequest: IdempotentRequest,
    { agentId, ...spender }: SignalPublishingAgent,
    wanted: SignalPublication,
  ): Promise<IdempotentReply> {
    const channel = parseChannelName(wanted.channel, agentId, '/channel')
    assertPlainChannelName(channel, '/channel')
    if (channel === PULSES_CHANNEL) throw invalidInputError('/channel', 'is reserved for pulses')
    const { type = 'broadcast', payload = {}, ttlSeconds = LIMITS.signalTtlSeconds } = wanted
    assertMaxBytes(JSON.stringify(payload), LIMITS.signalPayloadBytes, '/payload')
    const owner = findInboxChannelAgent(channel)
    if (owner !== null && !(await withDatabaseAnswerTimeout(profiles.has(owner))))
      throw new ServiceError('agent_not_found', { agent_id: owner })
    const callId = newUuidV7(clock.now())
    const signal = { callId, from: agentId, channel, type, payload, ttlSeconds }
    const fee = {
      callId,
      name: 'signal_publish',
      operation: idempotentRequest.operation,
      amount: SIGNAL_PRICE,
      spender,
      promoTransferable,
      rows: (at: number) => [{ table: 'signals', row: toSignalRow(signal, at) }],
    }
    const present = ({ balance, at }: FixedFeeResult) => ({
      status: 200,
      body: {
        call_id: callId,
        channel,
        type,
        created_at: new Date(at).toISOString(),
        expires_at: new Date(at + ttlSeconds * 1_000).toISOString(),
        cost_usdc: toUsdc(SIGNAL_PRICE),
        balance_usdc: toUsdc(balance),
      },
    })
    const given = await once.runCommand(idempotentRequest, present, (options) =>
      actors.ask(agentId, chargeFixedFeeCommand, fee, {
        ...toSpenderPreload(spender),
        ...options,
      }),
    )
    const body = given.body as { call_id: string }
    // The signal is published and charged: return it without an id rather than an error that invites a retry.
    const id = await withDatabaseAnswerTimeout(signals.idOf(body.call_id)).catch(() => null)
    return { ...given, body: { id: id === null ? null : String(id), ...body } }
  }
}
