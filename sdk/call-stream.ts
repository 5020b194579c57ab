import {
  Conflict,
  GasStationError,
  StreamBroken,
  toStationRefusal,
  type StationProblem,
} from './station-errors.ts'
import { pauseFor, type TransportRequest, type StationTransport } from './station-transport.ts'
import { readSseEvents } from './sse-reader.ts'

/** Streams one call. A broken stream is opened again under the same key, so the call is charged once. */

export type CallStreamEvent<Result> =
  | {
      readonly event: 'start'
      readonly data: { readonly tool: string; readonly call_id: string | null }
    }
  | { readonly event: 'progress'; readonly data: Readonly<Record<string, unknown>> }
  /** A part of the output, in order; parts that were lost with a connection are in the result only. */
  | { readonly event: 'partial' | 'text'; readonly data: Readonly<Record<string, unknown>> }
  | { readonly event: 'result'; readonly data: Result }

/** Opens the stream of a call; pays it where a hook may. */
type OpenCallStream = () => Promise<Response>

/** Yields the events of a call up to its result; throws the refusal of a failed one. */
export async function* streamCall<Result>(
  transport: StationTransport,
  open: OpenCallStream,
  signal: TransportRequest['signal'],
): AsyncGenerator<CallStreamEvent<Result>, void> {
  let failures = 0
  let started = false
  for (;;) {
    try {
      for await (const { event, data } of readSseEvents(await open())) {
        const parsed = JSON.parse(data) as unknown
        if (event === 'error') throw toStationRefusal(parsed as StationProblem)
        if (event === 'start' && started) continue
        started ||= event === 'start'
        yield { event, data: parsed } as CallStreamEvent<Result>
        if (event === 'result') return
      }
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof GasStationError && !isStillRunning(error)) throw error
    }
    failures += 1
    if (failures > transport.maxAttempts)
      throw new StreamBroken(
        'stream_broken',
        `the stream of this call broke ${failures} times; repeat it with the same idempotencyKey`,
      )
    await pauseFor(transport.retryDelay(failures - 1), signal)
  }
}

/** The first stream still runs the call: its answer comes later. */
const isStillRunning = (error: GasStationError): boolean =>
  error instanceof Conflict && error.code === 'idempotency_in_flight'
