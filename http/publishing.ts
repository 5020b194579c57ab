import type { Actors } from '../actors/command.ts'
import { invalid, ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { toUsdc } from '../core/money.ts'
import { SIGNAL_PRICE } from '../core/prices.ts'
import type { Spender } from '../payments/admission.ts'
import { feeTake, type FeePaid } from '../payments/commands/fee.ts'
import type { Answered, Asked, Once } from '../persistence/once.ts'
import type { ProfileStore } from '../persistence/profiles.ts'
import { stagedSignal, type SignalStore, type SignalType } from '../persistence/signals.ts'
import { answered } from '../persistence/within.ts'
import { touchingBackpack } from './touched-backpack.ts'
import { channelNamed, ownerOf, PULSES } from '../realtime/channels.ts'
import { assertBytes } from './body.ts'

/** What an agent wants to publish, through whichever door. */
export interface Publication {
  readonly channel: string
  readonly type: SignalType | undefined
  readonly payload: Record<string, unknown> | undefined
  readonly ttlSeconds: number | undefined
}

/** Who publishes, and under whose limits. */
export interface Publisher extends Spender {
  readonly agentId: string
}

export interface PublishingParts {
  readonly actors: Actors
  readonly once: Once
  readonly clock: { now(): number }
  readonly profiles: Pick<ProfileStore, 'has'>
  readonly signals: Pick<SignalStore, 'idOf'>
  readonly promoTransferable: boolean
}

/**
 * Publishes one signal: its price and its row are one commit. The id, by which streams order it, is
 * given in the commit and read after it, so a repeated request finds the same one.
 */
export function publishing(parts: PublishingParts) {
  const { actors, once, clock, profiles, signals, promoTransferable } = parts
  return async function publish(
    asked: Asked,
    { agentId, ...spender }: Publisher,
    wanted: Publication,
  ): Promise<Answered> {
    const channel = channelNamed(wanted.channel, agentId, '/channel')
    if (channel === PULSES) throw invalid('/channel', 'is reserved: pulses are sent as pulses')
    const { type = 'broadcast', payload = {}, ttlSeconds = LIMITS.signalTtlSeconds } = wanted
    assertBytes(JSON.stringify(payload), LIMITS.signalPayloadBytes, '/payload')
    const owner = ownerOf(channel)
    if (owner !== null && !(await answered(profiles.has(owner))))
      throw new ServiceError('agent_not_found', { agent_id: owner })
    const callId = newId(clock.now())
    const signal = { callId, from: agentId, channel, type, payload, ttlSeconds }
    const fee = {
      callId,
      name: 'signal_publish',
      operation: asked.operation,
      amount: SIGNAL_PRICE,
      spender,
      promoTransferable,
      rows: (at: number) => [{ table: 'signals', row: stagedSignal(signal, at) }],
    }
    const present = ({ balance, at }: FeePaid) => ({
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
    const given = await once.command(asked, present, (options) =>
      actors.ask(agentId, feeTake, fee, { ...touchingBackpack(spender.backpackId), ...options }),
    )
    const body = given.body as { call_id: string }
    // It is published and paid for: without its id at worst, never an error that invites another try.
    const id = await answered(signals.idOf(body.call_id)).catch(() => null)
    return { ...given, body: { id: id === null ? null : String(id), ...body } }
  }
}
