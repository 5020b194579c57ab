import type { AgentOutboxEvent } from '../persistence/outbox-store.ts'
import type { AgentGoalPulse } from '../persistence/realtime/agent-goal-pulse-store.ts'
import type { AgentSignal } from '../persistence/realtime/channel-signal-store.ts'
import { inboxChannelOf, PULSES_CHANNEL } from './signal-channel-names.ts'

/** Kinds of socket events. Signals have one cursor, all other kinds share another. */
export type SocketEventKind =
  | 'signal'
  | 'pulse'
  | 'message'
  | 'alert'
  | 'task'
  | 'backpack'
  | 'bounty'
  | 'schedule'

/**
 * Kinds by event type or its first part. Events of a Backpack are `backpack`; the rest are `alert`.
 */
const EVENT_KINDS: Readonly<Record<string, SocketEventKind>> = {
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

function socketEventKind({
  type,
  backpackId,
}: Pick<AgentOutboxEvent, 'type' | 'backpackId'>): SocketEventKind {
  const family = type.split('.', 1)[0] ?? ''
  const kind = EVENT_KINDS[type] ?? EVENT_KINDS[family] ?? 'alert'
  return backpackId !== null && kind !== 'message' ? 'backpack' : kind
}

/**
 * Filters events for a key bound to a Backpack: events of that Backpack and messages to the agent.
 * Events of the agent's other keys are hidden.
 */
export const isEventVisibleToBackpackKey =
  (backpackId: string) =>
  (event: AgentOutboxEvent): boolean =>
    event.backpackId === backpackId ||
    event.data['backpack_id'] === backpackId ||
    socketEventKind(event) === 'message'

/** A signal as all APIs return it. */
export const toSignalView = (signal: AgentSignal) => ({
  id: String(signal.id),
  channel: signal.channel,
  type: signal.type,
  from_agent_id: signal.from,
  payload: signal.payload,
  created_at: signal.at.toISOString(),
  expires_at: signal.expiresAt.toISOString(),
})

/** A pulse as all APIs return it. */
export const toPulseView = (pulse: AgentGoalPulse) => ({
  agent_id: pulse.agentId,
  goal_vector: pulse.goalVector,
  confidence: pulse.confidence,
  idle_cycles: pulse.idleCycles,
  created_at: pulse.at.toISOString(),
  expires_at: pulse.expiresAt.toISOString(),
})

/** The `event` frame of the socket. */
export function toSignalWebSocketFrame(signal: AgentSignal): string {
  const { id, channel, created_at: time, ...data } = toSignalView(signal)
  return JSON.stringify({ type: 'event', id, channel, kind: 'signal', time, data })
}

export const toOutboxEventWebSocketFrame = (event: AgentOutboxEvent): string =>
  JSON.stringify({
    type: 'event',
    id: String(event.id),
    channel: inboxChannelOf(event.agentId),
    kind: socketEventKind(event),
    time: event.at.toISOString(),
    data: { ...event.data, type: event.type },
  })

export function toPulseWebSocketFrame(pulse: AgentGoalPulse): string {
  const { created_at: time, ...data } = toPulseView(pulse)
  return JSON.stringify({ type: 'event', channel: PULSES_CHANNEL, kind: 'pulse', time, data })
}

/** The server-sent event of the signal stream. */
export const toSignalSseEvent = (signal: AgentSignal): string =>
  `id: ${signal.id}\nevent: signal\ndata: ${JSON.stringify(toSignalView(signal))}\n\n`
