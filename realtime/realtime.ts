import { DAY, SECOND, type Clock } from '../core/clock.ts'
import type { Bus } from '../persistence/bus.ts'
import type { KeyStore } from '../persistence/keys.ts'
import type { AddressedEvent, OutboxStore } from '../persistence/outbox.ts'
import { PULSES_TOPIC, type Pulse, type PulseStore } from '../persistence/pulses.ts'
import type { ActiveChannel, Signal, SignalStore } from '../persistence/signals.ts'
import { announcer, idAnnouncer, TAIL_TOPIC } from './announce.ts'
import { catchUpFacts, catchUpSignals, type CatchUp } from './catch-up.ts'
import { inboxOf, PULSES } from './channels.ts'
import { hub } from './hub.ts'
import { keyWatch } from './key-watch.ts'
import { presence, type OpenStream } from './presence.ts'
import { pulsePasser } from './pulse-passer.ts'
import { reader } from './reader.ts'
import { rationed } from './replay-gate.ts'
import { sessions } from './sessions.ts'
import { wording } from './told.ts'
import { factFrame, pulseFrame, signalEvent, signalFrame } from './views.ts'

export interface RealtimeParts {
  readonly clock: Clock
  readonly bus: Bus
  readonly signals: SignalStore
  readonly outbox: OutboxStore
  readonly pulses: PulseStore
  readonly keys: Pick<KeyStore, 'find'>
  readonly log: (message: string, error: unknown) => void
}

/** The tables whose growth is passed on. */
type Growing = 'signals' | 'outbox'

/**
 * What agents hear of each other and of themselves on this node. Postgres has the rows and their
 * order; the bus says only that something is new, and what it fails to say is found two seconds later.
 */
export async function realtime(parts: RealtimeParts) {
  const { clock, bus, signals, outbox, pulses, log } = parts
  const heard = {
    signals: hub<Signal>({
      ...{ clock, log },
      channelOf: ({ channel }) => channel,
      words: wording(signalFrame, signalEvent),
    }),
    outbox: hub<AddressedEvent>({
      ...{ clock, log },
      channelOf: ({ agentId }) => inboxOf(agentId),
      words: wording(factFrame),
    }),
    pulses: hub<Pulse>({ clock, log, channelOf: () => PULSES, words: wording(pulseFrame) }),
  }
  const present = presence()
  const held = sessions(bus, clock)
  const historyOf = rationed(parts)
  const watch = keyWatch({ ...parts, presence: present })
  const [signalTail, factTail] = await Promise.all([signals.tail(), outbox.tail()])
  const readers = {
    signals: reader({ clock, log, tail: signalTail, hub: heard.signals }),
    outbox: reader({ clock, log, tail: factTail, hub: heard.outbox }),
  }
  const presentSignals = { mark: heard.signals.mark, recent: readers.signals.recent }
  const presentFacts = { mark: heard.outbox.mark, recent: readers.outbox.recent }
  const says = {
    signals: announcer(() => bus.publish(TAIL_TOPIC, 'signals')),
    outbox: announcer(() => bus.publish(TAIL_TOPIC, 'outbox')),
  }
  const wakeAll = () => Object.values(readers).forEach(({ wake }) => wake())
  const passPulses = pulsePasser({ clock, pulses, hub: heard.pulses, log })
  const deaf = [
    bus.subscribe(
      TAIL_TOPIC,
      (table) => (table === 'signals' || table === 'outbox') && readers[table].wake(),
      wakeAll,
    ),
    bus.subscribe(PULSES_TOPIC, (ids) => passPulses.of(ids.split(','))),
  ]
  const pulsed = idAnnouncer(bus, PULSES_TOPIC, passPulses.of)

  return {
    /** A commit of this node has added rows: streams everywhere hear of it. */
    grew(table: Growing): void {
      readers[table].wake()
      says[table].tell()
    },
    pulsed: (agentId: string) => pulsed.tell(agentId),
    /** Everything up to here has been told on this node, or waits with those who listen. */
    marks: () => ({ signals: heard.signals.mark(), outbox: heard.outbox.mark() }),
    /** Signals by their channels, facts by the inboxes of agents, pulses on a channel of their own. */
    listeners: {
      signals: heard.signals.listener,
      facts: heard.outbox.listener,
      pulses: heard.pulses.listener,
    },
    async replaySignals(
      agentId: string,
      channels: readonly string[],
      asking: CatchUp<Signal>,
    ): Promise<void> {
      const history = historyOf(agentId)
      await readers.signals.reached(asking.since)
      await catchUpSignals(history.signals, clock, presentSignals, channels, asking)
    },
    async replayFacts(agentId: string, asking: CatchUp<AddressedEvent>): Promise<void> {
      const history = historyOf(agentId)
      await readers.outbox.reached(asking.since)
      await catchUpFacts(history.outbox, presentFacts, agentId, asking)
    },
    /** Public channels of the last 24 hours. */
    channels: snapshotOf(() => signals.channelsSince(new Date(clock.now() - DAY)), clock),
    /** Takes a stream in; refuses one too many of its key or its agent. Returns what takes it out again. */
    enter(stream: OpenStream): () => void {
      const leave = present.enter(stream)
      watch.opened(stream)
      return leave
    },
    sessions: held,
    /** Ends all streams: clients come back to another node, or to this one later. */
    drain(): void {
      for (const stream of [...present.all()]) stream.end('restart')
    },
    counts: present.counts,
    /** Counts a stream that ends by itself against the same limits. */
    count: present.count,
    lags: () => ({ signals: readers.signals.lag(), outbox: readers.outbox.lag() }),
    async stop(): Promise<void> {
      for (const end of deaf) end()
      for (const { stop } of [...Object.values(says), pulsed, held, watch]) stop()
      for (const { stop } of Object.values(heard)) stop()
      await Promise.all(Object.values(readers).map(({ stop }) => stop()))
    },
  }
}
export type Realtime = Awaited<ReturnType<typeof realtime>>

const FRESH_MS = 2 * SECOND

/** One answer for everybody who asks at once or soon after; a slow one is asked for less often. */
function snapshotOf(read: () => Promise<ActiveChannel[]>, clock: Clock) {
  let latest: Promise<ActiveChannel[]> | null = null
  let until = -Infinity
  return (): Promise<ActiveChannel[]> => {
    if (latest !== null && clock.mono() < until) return latest
    const startedAt = clock.mono()
    until = Infinity
    const asked = read()
      .catch((error: unknown) => {
        latest = null
        throw error
      })
      .finally(() => {
        until = clock.mono() + Math.max(FRESH_MS, 10 * (clock.mono() - startedAt))
      })
    latest = asked
    return asked
  }
}
