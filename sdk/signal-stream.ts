import {
  GasStationError,
  StreamBroken,
  toStationRefusal,
  type StationProblem,
} from './station-errors.ts'
import { pauseFor, type StationTransport } from './station-transport.ts'
import { readSseEvents } from './sse-reader.ts'

/** Follows channels over server-sent events and resumes where a connection broke. */

export interface SignalEvent {
  readonly event: 'ready' | 'signal' | 'gap'
  /** The cursor after this event: give it as `since` to continue in another process. */
  readonly cursor: string | null
  readonly data: Readonly<Record<string, unknown>>
}

export interface SignalStreamOptions {
  /** The last id that was seen; without it the stream starts now. */
  readonly since?: string
  readonly signal?: AbortSignal
}

/** Yields every signal once and in order. Ends when the caller stops or the station refuses. */
export async function* followSignals(
  transport: StationTransport,
  channels: readonly string[],
  { since, signal }: SignalStreamOptions = {},
): AsyncGenerator<SignalEvent, void> {
  let cursor = since ?? null
  let failures = 0
  let opened = false
  const path = `/api/signal/stream?${new URLSearchParams({ channels: channels.join(',') }).toString()}`
  for (;;) {
    try {
      const headers: Record<string, string> = cursor === null ? {} : { 'last-event-id': cursor }
      const response = await transport.open({ method: 'GET', path, headers, signal })
      for await (const { id, event, data } of readSseEvents(response)) {
        // Delivery is at least once, and each connection says where it starts.
        const seen = event === 'ready' ? opened : id !== null && isUpTo(id, cursor)
        opened = true
        cursor = id ?? cursor
        if (event !== '' && !seen) yield toSignalEvent(event, data, cursor)
        failures = 0
      }
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof GasStationError) throw error
    }
    signal?.throwIfAborted()
    failures += 1
    if (failures > transport.maxAttempts)
      throw new StreamBroken('stream_broken', `the stream broke ${failures} times without an event`)
    await pauseFor(transport.retryDelay(failures - 1), signal)
  }
}

const isUpTo = (id: string, cursor: string | null): boolean =>
  cursor !== null && BigInt(id) <= BigInt(cursor)

function toSignalEvent(event: string, data: string, cursor: string | null): SignalEvent {
  const parsed = JSON.parse(data) as SignalEvent['data']
  if (event === 'error') throw toStationRefusal(parsed as StationProblem)
  return { event: event as SignalEvent['event'], cursor, data: parsed }
}
