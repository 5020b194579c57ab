import { toRequestJson } from './request-json.ts'
import {
  GasStationError,
  NotAllowed,
  NotAStation,
  StreamBroken,
  toStationRefusal,
  Unauthenticated,
  type StationProblem,
} from './station-errors.ts'
import { pauseFor, type StationTransport } from './station-transport.ts'

/** A WebSocket of subprotocol `gas.v1` that resumes its session, and repeats what was not answered. */

interface SocketClosing {
  readonly code: number
  readonly reason?: string
}

/** The part of a WebSocket that is used; the one of browsers and Node 22, and the one of `ws`. */
export interface WebSocketLike {
  readonly readyState: number
  send(text: string): void
  close(code?: number): void
  addEventListener(type: 'open' | 'error', listener: () => void): void
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void
  addEventListener(type: 'close', listener: (event: SocketClosing) => void): void
}
type WebSocketClass = new (url: string, protocols: string[]) => WebSocketLike

export interface StationSocketOptions {
  /** Where the runtime has none: `WebSocket` of the package `ws`. */
  readonly WebSocket?: WebSocketClass
  readonly signal?: AbortSignal
}

export interface SocketEvent {
  readonly id?: string
  readonly channel: string
  readonly kind: string
  readonly time: string
  readonly data: Readonly<Record<string, unknown>>
}

type Frame = Readonly<Record<string, unknown>> & { readonly type: string }
interface Waiting {
  readonly frame: Frame
  resolve(ack: Frame): void
  reject(error: unknown): void
}
interface Cursors {
  signals: string
  outbox: string
}

/** Close codes after which the session may be resumed. */
const RESUMABLE: ReadonlySet<number> = new Set([1001, 1005, 1006, 1011, 1012, 4408, 4429, 4500])
const OPEN = 1

/** A session over one or more sockets, one after the other. */
export class StationSocket {
  readonly #transport: StationTransport
  readonly #options: StationSocketOptions
  readonly #waiting = new Map<string, Waiting>()
  readonly #channels = new Set<string>()
  readonly #listeners = new Set<(event: SocketEvent) => void>()
  #socket: WebSocketLike | null = null
  #session: string | null = null
  #cursors: Cursors = { signals: '0', outbox: '0' }
  /** The last id by channel: a replay of one channel may be behind the live events of another. */
  readonly #seen = new Map<string, string>()
  /** Subscriptions that are being replayed: until they are answered the cursors stay. */
  readonly #replaying = new Set<string>()
  /** Before `ready` own events are replayed: the channels may be behind them. */
  #isOpening = false
  #refs = 0
  #failures = 0
  #end: GasStationError | null = null

  private constructor(transport: StationTransport, options: StationSocketOptions) {
    this.#transport = transport
    this.#options = options
  }

  /** Opens a session; throws where the station refuses it. */
  static async open(
    transport: StationTransport,
    options: StationSocketOptions = {},
  ): Promise<StationSocket> {
    const socket = new StationSocket(transport, options)
    options.signal?.addEventListener('abort', () => socket.close(), { once: true })
    await socket.#connect()
    return socket
  }

  /** Calls a listener with every event, once and in order; returns how to stop it. */
  onEvent(listener: (event: SocketEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async subscribe(channels: readonly string[]): Promise<void> {
    await this.#ask({ type: 'subscribe', channels })
    for (const channel of channels) this.#channels.add(channel)
  }

  async unsubscribe(channels: readonly string[]): Promise<void> {
    for (const channel of channels) this.#channels.delete(channel)
    await this.#ask({ type: 'unsubscribe', channels })
  }

  /** Publishes a signal: charged once, however often the socket breaks. */
  async publish(channel: string, signalType: string, payload: object = {}): Promise<Frame> {
    return this.#ask({ type: 'publish', channel, signal_type: signalType, payload })
  }

  async message(to: string, message: string): Promise<Frame> {
    return this.#ask({ type: 'message', to, message })
  }

  /** Calls a tool: charged once, however often the socket breaks. */
  async call(tool: string, input: object): Promise<Readonly<Record<string, unknown>>> {
    const { result } = await this.#ask({ type: 'refuel', ...input, tool })
    return result as Readonly<Record<string, unknown>>
  }

  /** Ends the session. What was not answered is rejected. */
  close(): void {
    this.#finish(new StreamBroken('closed', 'the socket was closed here'))
  }

  #ask(fields: Frame): Promise<Frame> {
    if (this.#end !== null) return Promise.reject(this.#end)
    const ref = `sdk-${(this.#refs += 1)}`
    const frame = { ...fields, ref }
    toRequestJson(frame)
    return new Promise((resolve, reject) => {
      this.#waiting.set(ref, { frame, resolve, reject })
      this.#send(frame)
    })
  }

  /** A frame for a broken socket waits for the next one. */
  #send(frame: Frame): void {
    if (this.#session === null || this.#socket?.readyState !== OPEN) return
    if (frame.type === 'subscribe') this.#replaying.add(String(frame['ref']))
    this.#socket.send(JSON.stringify(frame))
  }

  #sendAgain(ref: string): void {
    const waiting = this.#waiting.get(ref)
    if (waiting !== undefined) this.#send(waiting.frame)
  }

  /** Resolves when the session is open, after as many sockets as it takes. */
  async #connect(): Promise<void> {
    for (;;) {
      const closed = await this.#openSocket()
      if (this.#end !== null) throw this.#end
      if (closed === null) return
      this.#failures += 1
      if (!RESUMABLE.has(closed.code) || this.#failures > this.#transport.maxAttempts) {
        this.#finish(toClosedError(closed))
        throw this.#end as unknown as Error
      }
      await pauseFor(this.#transport.retryDelay(this.#failures - 1), this.#options.signal)
    }
  }

  /** Opens one socket; resolves with null when it is ready, else with why it closed. */
  #openSocket(): Promise<SocketClosing | null> {
    const Socket =
      this.#options.WebSocket ?? (globalThis as { WebSocket?: WebSocketClass }).WebSocket
    if (Socket === undefined)
      throw new GasStationError(
        'no_websocket',
        'give `WebSocket` of the package ws, or use Node 22',
      )
    const socket = new Socket(`${this.#transport.origin.replace(/^http/, 'ws')}/api/ws`, ['gas.v1'])
    this.#socket = socket
    this.#isOpening = true
    let ready = false
    return new Promise((resolve) => {
      socket.addEventListener('open', () => socket.send(JSON.stringify(this.#hello())))
      // An error is followed by a close.
      socket.addEventListener('error', () => {})
      socket.addEventListener('message', ({ data }) => {
        if (socket !== this.#socket) return
        const frame = parseFrame(data)
        if (frame === null)
          return this.#finish(new NotAStation('not_a_station', 'no station sends such a frame'))
        if (frame.type === 'ready') {
          ready = true
          this.#start(frame)
          resolve(null)
        } else this.#receive(frame)
      })
      socket.addEventListener('close', (closing) => {
        resolve(closing)
        if (!ready || socket !== this.#socket || this.#end !== null) return
        if (!RESUMABLE.has(closing.code)) this.#finish(toClosedError(closing))
        else this.#connect().catch((error: unknown) => this.#finish(error as GasStationError))
      })
    })
  }

  #hello(): Frame {
    const session = this.#session
    const resume = session === null ? {} : { resume: { session, cursor: this.#cursors } }
    return { type: 'hello', api_key: this.#transport.apiKey, ...resume }
  }

  #start({ session, cursor }: Frame): void {
    this.#session = String(session)
    this.#failures = 0
    this.#isOpening = false
    this.#cursors = { ...(cursor as Cursors) }
    this.#replaying.clear()
    const channels = [...this.#channels]
    const ref = `sdk-again-${(this.#refs += 1)}`
    if (channels.length > 0)
      this.#send({ type: 'subscribe', ref, channels, since: this.#cursors.signals })
    // The same ref in the same session is the same request.
    for (const { frame } of this.#waiting.values()) this.#send(frame)
  }

  #receive(frame: Frame): void {
    if (frame.type === 'event') return this.#deliver(frame as unknown as SocketEvent)
    if (frame.type === 'gap') return this.#tell(toGapEvent(frame))
    const { ref, problem, cursor } = frame
    if (this.#replaying.delete(String(ref)) && this.#replaying.size === 0 && cursor !== undefined)
      this.#cursors = { ...(cursor as Cursors) }
    const waiting = this.#waiting.get(String(ref))
    if (waiting === undefined) return
    // An earlier socket of this session still runs the request: its answer comes under the same ref.
    if ((problem as StationProblem | undefined)?.code === 'idempotency_in_flight')
      return void setTimeout(() => this.#sendAgain(String(ref)), this.#transport.retryDelay(1))
    this.#waiting.delete(String(ref))
    if (frame.type === 'error') waiting.reject(toStationRefusal(problem as StationProblem))
    else waiting.resolve(frame)
  }

  /** Delivery is at least once: an id that was seen on its channel is left out. */
  #deliver(event: SocketEvent): void {
    const { id, kind, channel } = event
    if (id !== undefined) {
      const table = kind === 'signal' ? 'signals' : 'outbox'
      const seen = this.#seen.get(`${table} ${channel}`)
      if (seen !== undefined && BigInt(id) <= BigInt(seen)) return
      this.#seen.set(`${table} ${channel}`, id)
      if (
        !this.#isOpening &&
        this.#replaying.size === 0 &&
        BigInt(id) > BigInt(this.#cursors[table])
      )
        this.#cursors[table] = id
    }
    this.#tell(event)
  }

  #tell(event: SocketEvent): void {
    for (const listener of this.#listeners) listener(event)
  }

  #finish(why: GasStationError): void {
    if (this.#end !== null) return
    this.#end = why
    this.#socket?.close(1000)
    for (const { reject } of this.#waiting.values()) reject(why)
    this.#waiting.clear()
  }
}

/** Returns why the station has ended a session. */
function toClosedError({ code, reason = '' }: SocketClosing): GasStationError {
  const detail = `the station closed the socket with ${code}${reason === '' ? '' : `: ${reason}`}`
  if (code === 4401) return new Unauthenticated({ code: 'unauthenticated', status: 401, detail })
  if (code === 4403) return new NotAllowed({ code: 'insufficient_scope', status: 403, detail })
  return new StreamBroken('socket_closed', detail)
}

/** Returns a frame; null for anything else, which a station never sends. */
function parseFrame(data: unknown): Frame | null {
  try {
    const frame = JSON.parse(String(data)) as Frame | null
    return frame !== null && isStationFrame(frame) ? frame : null
  } catch {
    return null
  }
}

/** Whether a frame has what is read of it. */
function isStationFrame({ type, id, cursor, problem }: Frame): boolean {
  switch (type) {
    case 'event':
      return id === undefined || isCursor(id)
    case 'ready':
      return isCursors(cursor)
    case 'ack':
      return cursor === undefined || isCursors(cursor)
    case 'error': {
      const { code, status } = (problem ?? {}) as Partial<StationProblem>
      return typeof code === 'string' && typeof status === 'number'
    }
    default:
      return typeof type === 'string'
  }
}

const isCursor = (value: unknown): boolean => typeof value === 'string' && /^\d{1,19}$/.test(value)

function isCursors(value: unknown): boolean {
  const { signals, outbox } = (value ?? {}) as Partial<Cursors>
  return isCursor(signals) && isCursor(outbox)
}

/** History that is not replayed: read it over REST. */
const toGapEvent = ({ channel, from, to }: Frame): SocketEvent => ({
  channel: String(channel),
  kind: 'gap',
  time: '',
  data: { from, to },
})
