import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import type { ApiKeyRecord } from '../../persistence/agents/api-key-store.ts'
import type { AgentOutboxEvent } from '../../persistence/outbox-store.ts'
import type { CatchUpSubscriber, ReplayGap } from '../../realtime/stream-catch-up.ts'
import {
  parseChannelName,
  assertChannelReadable,
  inboxChannelOf,
  PULSES_CHANNEL,
} from '../../realtime/signal-channel-names.ts'
import type { AgentEventStorageLease } from '../../realtime/agent-event-storage-leases.ts'
import type { RealtimeService } from '../../realtime/realtime-service.ts'
import {
  toOutboxEventWebSocketFrame,
  isEventVisibleToBackpackKey,
  toSignalWebSocketFrame,
} from '../../realtime/realtime-event-views.ts'
import { WS_CLOSE_CODES } from './websocket-frames-from-clients.ts'
import type { WsFrameWriter } from './websocket-frame-writer.ts'

/** The subscriptions of one socket, live and resumed. */

export interface WebSocketResumeCursors {
  readonly signals: string
  readonly outbox: string
}

/** What one socket listens to. */
export interface WebSocketSubscriptions {
  /** Has the events of the agent stored. Before it the client may not be given a cursor. */
  hear(): Promise<void>
  /** Subscribes to the agent's own channel and events, from now or from a cursor. */
  subscribeOwnChannel(from: WebSocketResumeCursors | null): Promise<void>
  /** Returns the canonical names of the channels, and whether nothing was missed. */
  subscribe(names: readonly string[], since: string | null): Promise<SubscribeResult>
  unsubscribe(names: readonly string[]): string[]
  /** Returns the cursors up to which every channel has been sent. */
  cursors(): WebSocketResumeCursors
  /** Sends what is queued and stops. */
  end(): void
}

interface SubscribeResult {
  readonly channels: string[]
  readonly recovered: boolean
}

export function createWebSocketSubscriptions(
  realtime: RealtimeService,
  out: WsFrameWriter,
  { agentId, backpackId }: Pick<ApiKeyRecord, 'agentId' | 'backpackId'>,
): WebSocketSubscriptions {
  const open = new Map<string, () => void>()
  const own = inboxChannelOf(agentId)
  /** The client reconnects with its cursor. */
  const failed = () => out.close(WS_CLOSE_CODES.internal, 'internal error')
  const signals = realtime.listeners.signals(out.sendEvent, failed)
  const isVisible = backpackId === null ? () => true : isEventVisibleToBackpackKey(backpackId)
  const facts = realtime.listeners.facts(out.sendEvent, failed, isVisible)
  const pulses = realtime.listeners.pulses(out.sendLatest, failed)
  let ended = false
  let heard: AgentEventStorageLease | null = null

  function listen(channel: string): void {
    if (ended || open.has(channel)) return
    open.set(channel, (channel === PULSES_CHANNEL ? pulses : signals).listen(channel))
  }
  function silence(channels: readonly string[]): void {
    for (const channel of channels) {
      open.get(channel)?.()
      open.delete(channel)
    }
  }
  function listenToFacts(): void {
    if (!ended) facts.listen(own)
  }

  /** Replays from a cursor; returns whether nothing was missed. */
  async function recover<T>(
    since: string,
    frame: (row: T) => string | null,
    replay: (asking: CatchUpSubscriber<T>) => Promise<void>,
    onLive: () => void,
  ): Promise<boolean> {
    let recovered = true
    await replay({
      since: BigInt(since),
      onGap(gap) {
        recovered = false
        out.send(gapFrame(gap))
      },
      onRow(row) {
        const text = frame(row)
        if (text !== null) out.sendRaw(text)
      },
      waitForRoom: out.waitForRoom,
      onLive,
    })
    return recovered
  }

  const recoverSignals = (channels: readonly string[], since: string) =>
    recover(
      since,
      toSignalWebSocketFrame,
      (asking) => realtime.replaySignals(agentId, channels, asking),
      () => channels.forEach(listen),
    )

  /**
   * Events that arrive during the replay are replayed too: sent live, they would arrive twice and out of
   * order.
   */
  async function recoverAnew(channels: readonly string[], since: string): Promise<boolean> {
    const before = channels.some((channel) => open.has(channel))
    silence(channels)
    try {
      return await recoverSignals(channels, since)
    } catch (error) {
      // A channel that was live before would stay silent unnoticed.
      if (before) out.close(WS_CLOSE_CODES.internal, 'what you missed cannot be read now')
      throw error
    }
  }

  const named = (names: readonly string[]) =>
    names.map((name, at) => parseChannelName(name, agentId, `/channels/${at}`))

  return {
    async hear() {
      heard = await realtime.hear(agentId, failed)
      if (ended) heard.release()
    },
    async subscribeOwnChannel(from) {
      if (from !== null && heard !== null) {
        const listener = heard
        await recover(
          from.outbox,
          (event: AgentOutboxEvent) =>
            isVisible(event) ? toOutboxEventWebSocketFrame(event) : null,
          (asking) => realtime.replayFacts(listener, asking),
          listenToFacts,
        )
        await recoverSignals([own], from.signals)
      }
      // Also when nothing was replayed, or the reader disconnected before the end.
      listenToFacts()
      listen(own)
    },
    async subscribe(names, since) {
      const channels = [...new Set(named(names))]
      for (const channel of channels) assertChannelReadable(channel, agentId)
      const all = new Set([...open.keys(), ...channels])
      all.delete(own)
      if (all.size > LIMITS.streamChannels)
        throw new ServiceError('limit_reached', { limit: LIMITS.streamChannels })
      let recovered = true
      const storing = channels.filter((channel) => channel !== PULSES_CHANNEL)
      if (since !== null && storing.length > 0) {
        recovered = await recoverAnew(storing, since)
      }
      channels.forEach(listen)
      return { channels, recovered }
    },
    unsubscribe(names) {
      const channels = named(names)
      silence(channels.filter((channel) => channel !== own))
      return channels
    },
    cursors: () => ({ signals: String(signals.cursor()), outbox: String(facts.cursor()) }),
    end() {
      ended = true
      heard?.release()
      for (const listener of [signals, facts, pulses]) {
        listener.flush()
        listener.end()
      }
      open.clear()
    },
  }
}

const gapFrame = ({ channel, from, to }: ReplayGap) => ({
  type: 'gap',
  channel,
  from: String(from),
  to: String(to),
})
