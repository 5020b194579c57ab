import { randomInt } from 'node:crypto'
import { EventEmitter, on } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { WebSocket } from 'undici'
import type { SecretString } from '../../secret-string.ts'
import { CliFailure } from '../cli-verb.ts'
import { exitCodeOfProblem } from './cli-station-client.ts'

/** Follows events over WebSockets (`docs/realtime.md`), from one connection to the next. */

export interface FollowedStationEventOrGap {
  readonly type: 'event' | 'gap'
  readonly id?: string
  readonly channel?: string
  readonly kind?: string
  readonly time?: string
  readonly data?: Readonly<Record<string, unknown>>
  readonly from?: string
  readonly to?: string
}

interface FollowSettings {
  readonly url: string
  readonly apiKey: SecretString
  readonly channels: readonly string[]
  readonly since: string | null
}

interface Cursor {
  signals: string
  outbox: string
}

/** What is kept from one connection to the next. */
interface Progress {
  session: string | null
  cursor: Cursor | null
  /** Until the channels are subscribed the cursor stays: their replay is behind what comes beside it. */
  isReplaying: boolean
  /** Ids that were delivered, the latest ones: delivery is at least once. */
  readonly seen: Set<string>
}

type Frame = Readonly<Record<string, unknown>> & { readonly type: string }

const MAX_SEEN_IDS = 10_000
const MAX_PAUSE_MS = 30_000
/** Close codes after which another attempt cannot succeed. */
const FINAL_CODES: Readonly<Record<number, number>> = {
  1000: 1,
  1002: 1,
  1007: 1,
  1009: 1,
  4400: 1,
  4401: 3,
  4403: 3,
  4406: 1,
  4409: 1,
}

/**
 * Yields events and gaps, each once. Connects again with growing pauses. Throws `CliFailure` if the
 * first connection fails, or if the station rejects the key or a channel.
 */
export async function* followEvents(
  settings: FollowSettings,
): AsyncGenerator<FollowedStationEventOrGap> {
  const progress: Progress = { session: null, cursor: null, isReplaying: false, seen: new Set() }
  for (let failures = 0; ; failures += 1) {
    try {
      for await (const frame of followConnection(settings, progress)) {
        failures = 0
        yield frame
      }
    } catch (error) {
      if (!(error instanceof ConnectionLost) || progress.session === null) throw error
      console.error(`${error.message}; connecting again`)
    }
    await delay(Math.min(MAX_PAUSE_MS, 500 * 2 ** failures) + randomInt(500))
  }
}

class ConnectionLost extends CliFailure {}

async function* followConnection(settings: FollowSettings, progress: Progress) {
  const socket = new WebSocket(`${settings.url.replace(/^http/, 'ws')}/api/ws`, 'gas.v1')
  const received = new EventEmitter()
  progress.isReplaying = true
  socket.addEventListener('open', () => socket.send(helloFrame(settings, progress)))
  socket.addEventListener('message', ({ data }) => received.emit('frame', parseFrame(data)))
  socket.addEventListener('close', ({ code, reason }) =>
    received.emit('frame', { type: 'close', code, reason }),
  )
  // The close event that follows says more.
  socket.addEventListener('error', () => undefined)
  try {
    for await (const [frame] of on(received, 'frame') as AsyncIterable<[Frame]>)
      yield* handleFrame(frame, socket, settings, progress)
  } finally {
    socket.close()
  }
}

function helloFrame({ apiKey }: FollowSettings, { session, cursor }: Progress): string {
  const resume = session === null || cursor === null ? {} : { resume: { session, cursor } }
  return JSON.stringify({ type: 'hello', api_key: apiKey.reveal(), ...resume })
}

function* handleFrame(
  frame: Frame,
  socket: WebSocket,
  { url, channels, since }: FollowSettings,
  progress: Progress,
): Generator<FollowedStationEventOrGap> {
  if (frame.type === 'ready') {
    const cursor = { ...(frame['cursor'] as Cursor) }
    const from = progress.session === null ? since : cursor.signals
    Object.assign(progress, { session: String(frame['session']), cursor })
    progress.isReplaying = channels.length > 0
    const more = from === null ? {} : { since: from }
    if (channels.length > 0)
      socket.send(JSON.stringify({ type: 'subscribe', ref: 'tail', channels, ...more }))
  } else if (frame.type === 'ack') {
    progress.isReplaying = false
    progress.cursor = { ...(frame['cursor'] as Cursor) }
  } else if (frame.type === 'error') throw failureOfFrame(frame)
  else if (frame.type === 'close') throw failureOfClose(url, frame)
  else if (frame.type === 'gap') yield frame as unknown as FollowedStationEventOrGap
  else if (frame.type === 'event' && isNew(frame as unknown as FollowedStationEventOrGap, progress))
    yield frame as unknown as FollowedStationEventOrGap
}

/** Moves the cursor, and says whether the event was not seen before. Pulses have no id. */
function isNew(
  { id, kind }: FollowedStationEventOrGap,
  { cursor, isReplaying, seen }: Progress,
): boolean {
  if (id === undefined) return true
  const table = kind === 'signal' ? 'signals' : 'outbox'
  if (cursor !== null && !isReplaying && BigInt(id) > BigInt(cursor[table])) cursor[table] = id
  const name = `${table} ${id}`
  if (seen.has(name)) return false
  seen.add(name)
  const [oldest] = seen
  if (seen.size > MAX_SEEN_IDS && oldest !== undefined) seen.delete(oldest)
  return true
}

function parseFrame(data: unknown): Frame {
  try {
    return JSON.parse(String(data)) as Frame
  } catch {
    return { type: 'close', code: 1007, reason: 'a frame is no JSON' }
  }
}

function failureOfFrame({ problem }: Frame): CliFailure {
  const { status, code, detail, title } = problem as Readonly<Record<string, unknown>>
  const text = `${String(detail ?? title)} (${String(code)})`
  return new CliFailure(text, exitCodeOfProblem(Number(status), String(code)), {
    document: problem,
  })
}

function failureOfClose(url: string, { code, reason }: Frame): CliFailure {
  const exitCode = FINAL_CODES[Number(code)]
  const why = typeof reason === 'string' && reason !== '' ? reason : `code ${String(code)}`
  if (exitCode !== undefined) return new CliFailure(`${url} closed the stream: ${why}`, exitCode)
  return new ConnectionLost(`${url} is gone (${why})`)
}
