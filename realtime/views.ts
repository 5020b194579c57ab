import type { AddressedEvent } from '../persistence/outbox.ts'
import type { Pulse } from '../persistence/pulses.ts'
import type { Signal } from '../persistence/signals.ts'
import { inboxOf, PULSES } from './channels.ts'

/** What kind of thing a socket tells of. Ids of signals and of all others are two cursors. */
export type Kind =
  | 'signal'
  | 'pulse'
  | 'message'
  | 'alert'
  | 'task'
  | 'backpack'
  | 'bounty'
  | 'schedule'

/** By the type of a fact, its first part, or its being about a Backpack; the rest are alerts. */
const KINDS: Readonly<Record<string, Kind>> = {
  agent_ping: 'message',
  tool_call: 'task',
  task: 'task',
  fuse: 'backpack',
  backpack: 'backpack',
  daily_limit_hit: 'backpack',
  bounty: 'bounty',
  bounty_received: 'bounty',
  schedule: 'schedule',
}

function kindOf({ type, backpackId }: Pick<AddressedEvent, 'type' | 'backpackId'>): Kind {
  const family = type.split('.', 1)[0] ?? ''
  const kind = KINDS[type] ?? KINDS[family] ?? 'alert'
  return backpackId !== null && kind !== 'message' ? 'backpack' : kind
}

/**
 * Whether a key bound to a Backpack hears of a fact: what is about that Backpack, and what others write
 * to its agent. Facts about other keys of the agent are their owner's.
 */
export const isWithin =
  (backpackId: string) =>
  (event: AddressedEvent): boolean =>
    event.backpackId === backpackId ||
    event.data['backpack_id'] === backpackId ||
    kindOf(event) === 'message'

/** A signal as every door shows it. */
export const signalView = (signal: Signal) => ({
  id: String(signal.id),
  channel: signal.channel,
  type: signal.type,
  from_agent_id: signal.from,
  payload: signal.payload,
  created_at: signal.at.toISOString(),
  expires_at: signal.expiresAt.toISOString(),
})

/** A pulse as every door shows it. */
export const pulseView = (pulse: Pulse) => ({
  agent_id: pulse.agentId,
  goal_vector: pulse.goalVector,
  confidence: pulse.confidence,
  idle_cycles: pulse.idleCycles,
  created_at: pulse.at.toISOString(),
  expires_at: pulse.expiresAt.toISOString(),
})

/** The `event` frames of the socket. */
export function signalFrame(signal: Signal): string {
  const { id, channel, created_at: time, ...data } = signalView(signal)
  return JSON.stringify({ type: 'event', id, channel, kind: 'signal', time, data })
}

export const factFrame = (event: AddressedEvent): string =>
  JSON.stringify({
    type: 'event',
    id: String(event.id),
    channel: inboxOf(event.agentId),
    kind: kindOf(event),
    time: event.at.toISOString(),
    data: { ...event.data, type: event.type },
  })

export function pulseFrame(pulse: Pulse): string {
  const { created_at: time, ...data } = pulseView(pulse)
  return JSON.stringify({ type: 'event', channel: PULSES, kind: 'pulse', time, data })
}

/** The event of the signal stream. */
export const signalEvent = (signal: Signal): string =>
  `id: ${signal.id}\nevent: signal\ndata: ${JSON.stringify(signalView(signal))}\n\n`
