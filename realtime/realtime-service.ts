import { DAY, SECOND, type Clock } from '../core/clock.ts'
import type { MessageBus } from '../persistence/message-bus.ts'
import type { CursorEpochs } from '../persistence/realtime/cursor-epochs.ts'
import type { ApiKeyStore } from '../persistence/agents/api-key-store.ts'
import type { AgentOutboxEvent, OutboxStore } from '../persistence/outbox-store.ts'
import {
  AGENT_GOAL_PULSE_TOPIC,
  type AgentGoalPulse,
  type AgentGoalPulseStore,
} from '../persistence/realtime/agent-goal-pulse-store.ts'
import type {
  ActiveSignalChannel,
  AgentSignal,
  SignalStore,
} from '../persistence/realtime/channel-signal-store.ts'
import {
  createThrottledBusAnnouncer,
  createBatchedBusIdPublisher,
  NEW_TABLE_ROWS_TOPIC,
} from './throttled-new-rows-announcer.ts'
import {
  createAgentEventStorageLeases,
  type AgentEventStorageLease,
} from './agent-event-storage-leases.ts'
import {
  catchUpOutboxEvents,
  catchUpSignals,
  type CatchUpSubscriber,
  type AgentEventStorageStart,
} from './stream-catch-up.ts'
import { inboxChannelOf, PULSES_CHANNEL } from './signal-channel-names.ts'
import { createBroadcastHub } from './broadcast-hub.ts'
import { createRevokedKeyStreamEnder } from './end-streams-of-revoked-keys.ts'
import { createOpenStreamRegistry, type OpenStream } from './open-stream-registry.ts'
import { createPulseSubscriberRelay } from './pulse-relay.ts'
import { createNewRowReader } from './new-row-reader.ts'
import { createStreamReplayLimiter } from './stream-replay-limiter.ts'
import { createWebSocketSessionTakeover } from './websocket-session-takeover.ts'
import { createWebSocketAndSseEventEncoder } from './encoded-websocket-and-sse-events.ts'
import {
  toOutboxEventWebSocketFrame,
  toPulseWebSocketFrame,
  toSignalSseEvent,
  toSignalWebSocketFrame,
} from './realtime-event-views.ts'

/** Assembles the realtime delivery of one node. */

export interface RealtimeServiceDeps {
  readonly clock: Clock
  readonly bus: MessageBus
  readonly signals: SignalStore
  readonly outbox: OutboxStore
  readonly pulses: AgentGoalPulseStore
  readonly epochs: CursorEpochs
  readonly keys: Pick<ApiKeyStore, 'find'>
  readonly log: (message: string, error: unknown) => void
}

/** Tables with live streams. */
type StreamedTable = 'signals' | 'outbox'

/**
 * Starts realtime delivery on this node. Postgres stores rows and their order; the bus only
 * announces new rows. A lost announcement delays delivery by at most two seconds.
 */
export async function startRealtimeService(parts: RealtimeServiceDeps) {
  const { clock, bus, signals, outbox, pulses, epochs, log } = parts
  const hubs = {
    signals: createBroadcastHub<AgentSignal>({
      ...{ clock, log },
      channelOf: ({ channel }) => channel,
      encoder: createWebSocketAndSseEventEncoder(toSignalWebSocketFrame, toSignalSseEvent),
    }),
    outbox: createBroadcastHub<AgentOutboxEvent>({
      ...{ clock, log },
      channelOf: ({ agentId }) => inboxChannelOf(agentId),
      encoder: createWebSocketAndSseEventEncoder(toOutboxEventWebSocketFrame),
    }),
    pulses: createBroadcastHub<AgentGoalPulse>({
      clock,
      log,
      channelOf: () => PULSES_CHANNEL,
      encoder: createWebSocketAndSseEventEncoder(toPulseWebSocketFrame),
    }),
  }
  const openStreams = createOpenStreamRegistry()
  const socketSessions = createWebSocketSessionTakeover(bus, clock)
  const heard = createAgentEventStorageLeases(outbox, clock)
  const historyOf = createStreamReplayLimiter(parts)
  const watch = createRevokedKeyStreamEnder({ ...parts, presence: openStreams })
  const [signalTail, outboxTail] = await Promise.all([signals.tail(), outbox.tail()])
  const isNeeded = () => openStreams.counts().sockets + openStreams.counts().events > 0
  const reading = { clock, log, isNeeded }
  const readers = {
    signals: createNewRowReader({ ...reading, tail: signalTail, hub: hubs.signals }),
    outbox: createNewRowReader({ ...reading, tail: outboxTail, hub: hubs.outbox }),
  }
  const liveSignals = {
    mark: hubs.signals.mark,
    recent: readers.signals.recent,
    issued: (id: bigint) => epochs.issued('signals', id),
  }
  const liveOutbox = {
    mark: hubs.outbox.mark,
    recent: readers.outbox.recent,
    issued: (id: bigint) => epochs.issued('outbox', id),
  }
  function drain(): void {
    for (const stream of [...openStreams.all()]) stream.end('restart')
  }
  const announcers = {
    signals: createThrottledBusAnnouncer(() => bus.publish(NEW_TABLE_ROWS_TOPIC, 'signals')),
    outbox: createThrottledBusAnnouncer(() => bus.publish(NEW_TABLE_ROWS_TOPIC, 'outbox')),
  }
  const wakeAll = () => Object.values(readers).forEach(({ wake }) => wake())
  const passPulses = createPulseSubscriberRelay({ clock, pulses, hub: hubs.pulses, log })
  const unsubscribers = [
    bus.subscribe(
      NEW_TABLE_ROWS_TOPIC,
      (table) => (table === 'signals' || table === 'outbox') && readers[table].wake(),
      wakeAll,
    ),
    bus.subscribe(AGENT_GOAL_PULSE_TOPIC, (ids) => passPulses.of(ids.split(','))),
  ]
  const pulsed = createBatchedBusIdPublisher(bus, AGENT_GOAL_PULSE_TOPIC, passPulses.of)

  return {
    /** A commit of this node added rows: wakes all nodes. */
    grew(table: StreamedTable): void {
      readers[table].wake()
      announcers[table].tell()
    },
    pulsed: (agentId: string) => pulsed.tell(agentId),
    /** All rows up to these ids are delivered or queued on this node. */
    marks: () => ({ signals: hubs.signals.mark(), outbox: hubs.outbox.mark() }),
    /** Signals by channel, events by agent inbox, pulses on their own channel. */
    listeners: {
      signals: hubs.signals.addSubscriber,
      facts: hubs.outbox.addSubscriber,
      pulses: hubs.pulses.addSubscriber,
    },
    async replaySignals(
      agentId: string,
      channels: readonly string[],
      subscriber: CatchUpSubscriber<AgentSignal>,
    ): Promise<void> {
      const history = historyOf(agentId)
      await readers.signals.waitUntilPassed(subscriber.since)
      await catchUpSignals(history.signals, clock, liveSignals, channels, subscriber)
    },
    /**
     * Makes commits store every event of the agent. Its stream may name a cursor after this. `end`
     * is called if the station could not keep that up.
     */
    async hear(agentId: string, end: () => void): Promise<AgentEventStorageLease> {
      const lostThrough = await outbox.listen(agentId)
      // Cursors of this stream should be above it: below, a resume has a gap.
      await readers.outbox.waitUntilPassed(lostThrough).catch(() => undefined)
      return heard.add({ agentId, lostThrough }, end)
    },
    keepHearing: heard.keep,
    async replayFacts(
      listener: AgentEventStorageStart,
      subscriber: CatchUpSubscriber<AgentOutboxEvent>,
    ): Promise<void> {
      const history = historyOf(listener.agentId)
      await readers.outbox.waitUntilPassed(subscriber.since)
      await catchUpOutboxEvents(history.outbox, liveOutbox, listener, subscriber)
    },
    /** Public channels of the last 24 hours. */
    channels: createChannelSnapshot(
      () => signals.channelsSince(new Date(clock.now() - DAY)),
      clock,
    ),
    /**
     * Registers a stream and returns the release function. Throws `rate_limited` above the limit of
     * the key or agent.
     */
    enter(stream: OpenStream): () => void {
      const wasNeeded = isNeeded()
      const leave = openStreams.register(stream)
      if (!wasNeeded) wakeAll()
      watch.opened(stream)
      return leave
    },
    sessions: socketSessions,
    /** Ends all streams before a restart. Clients reconnect to any node. */
    drain,
    /** Ends all streams when the database goes on with another history: their clients resume with a gap. */
    async renewEpochs(): Promise<void> {
      if (await epochs.renew()) drain()
    },
    lineage: epochs.lineage,
    counts: openStreams.counts,
    /** Counts a stream without registering it. */
    count: openStreams.count,
    lags: () => ({ signals: readers.signals.lag(), outbox: readers.outbox.lag() }),
    async stop(): Promise<void> {
      for (const end of unsubscribers) end()
      for (const { stop } of [...Object.values(announcers), pulsed, socketSessions, watch]) stop()
      for (const { stop } of Object.values(hubs)) stop()
      await Promise.all(Object.values(readers).map(({ stop }) => stop()))
    },
  }
}
export type RealtimeService = Awaited<ReturnType<typeof startRealtimeService>>

const SNAPSHOT_TTL_MS = 2 * SECOND

/** Caches the list of channels for all callers. A slow query is cached for longer. */
function createChannelSnapshot(read: () => Promise<ActiveSignalChannel[]>, clock: Clock) {
  let latest: Promise<ActiveSignalChannel[]> | null = null
  let until = -Infinity
  return (): Promise<ActiveSignalChannel[]> => {
    if (latest !== null && clock.mono() < until) return latest
    const startedAt = clock.mono()
    until = Infinity
    const query = read()
      .catch((error: unknown) => {
        latest = null
        throw error
      })
      .finally(() => {
        until = clock.mono() + Math.max(SNAPSHOT_TTL_MS, 10 * (clock.mono() - startedAt))
      })
    latest = query
    return query
  }
}
