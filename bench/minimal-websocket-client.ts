import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'

/**
 * A minimal WebSocket client for load measurements: it reads all connections into one buffer and
 * allocates no object per message. It supports single-frame text messages and pings (RFC 6455); any
 * other frame closes the connection.
 */
export interface BenchmarkWebSocketConnection {
  /** Sends a text of at most 65,535 bytes. */
  send(text: string): void
  end(): void
}

export interface MinimalWebSocketOptions {
  readonly url: string
  readonly protocol: string
  readonly headers: Readonly<Record<string, string>>
  /** Called with the payload of each message: a view that is valid only during the call. */
  readonly hear: (payload: Buffer, on: BenchmarkWebSocketConnection) => void
  readonly fail: (error: Error) => void
}

const SHARED = Buffer.allocUnsafe(262_144)
const NOTHING = Buffer.alloc(0)
const HEAD_END = '\r\n\r\n'
const TEXT = 0x81
const [PING, PONG] = [0x89, 0x8a]

/** Resolves once the server has switched protocols. */
export function connectMinimalWebSocket(
  options: MinimalWebSocketOptions,
): Promise<BenchmarkWebSocketConnection> {
  const { url, fail } = options
  const { hostname, port, pathname } = new URL(url)
  return new Promise((resolve, reject) => {
    let [kept, open]: [Buffer | null, boolean] = [null, false]
    const hear = (payload: Buffer) => options.hear(payload, on)
    const pong = (payload: Buffer) => void socket.write(masked(PONG, payload))
    const socket = connect({
      host: hostname,
      port: Number(port),
      noDelay: true,
      onread: {
        buffer: SHARED,
        callback(count) {
          const fresh = SHARED.subarray(0, count)
          const all = kept === null ? fresh : Buffer.concat([kept, fresh])
          const rest = open ? take(all) : head(all)
          kept = rest.length === 0 ? null : Buffer.from(rest)
          return true
        },
      },
    })
    const take = (all: Buffer): Buffer => {
      try {
        return frames(all, hear, pong)
      } catch (error) {
        socket.destroy(error as Error)
        return NOTHING
      }
    }
    const head = (all: Buffer): Buffer => {
      const end = all.indexOf(HEAD_END)
      if (end < 0) return all
      const line = all.toString('latin1', 0, 12)
      if (line !== 'HTTP/1.1 101') {
        reject(new Error(`not a WebSocket: ${all.toString('latin1', 0, end)}`))
        socket.destroy()
        return NOTHING
      }
      open = true
      resolve(on)
      return take(all.subarray(end + HEAD_END.length))
    }
    const on: BenchmarkWebSocketConnection = {
      send: (text) => void socket.write(masked(TEXT, Buffer.from(text))),
      end: () => void socket.destroy(),
    }
    socket.on('error', (error) => (open ? fail(error) : reject(error)))
    socket.write(upgrade(options, `${hostname}:${port}`, pathname))
  })
}

function upgrade(
  { protocol, headers }: MinimalWebSocketOptions,
  host: string,
  path: string,
): string {
  const lines = {
    host,
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': randomBytes(16).toString('base64'),
    'sec-websocket-protocol': protocol,
    ...headers,
  }
  const sent = Object.entries(lines).map(([name, value]) => `${name}: ${value}\r\n`)
  return `GET ${path} HTTP/1.1\r\n${sent.join('')}\r\n`
}

/** Passes on each complete message; returns the remaining bytes. */
function frames(all: Buffer, hear: (payload: Buffer) => void, pong: typeof hear): Buffer {
  let at = 0
  while (all.length - at >= 2) {
    const short = all[at + 1] as number
    const from = at + (short === 126 ? 4 : short === 127 ? 10 : 2)
    if (all.length < from) break
    const end = from + lengthOf(all, at + 2, short)
    if (all.length < end) break
    const payload = all.subarray(from, end)
    if (all[at] === TEXT) hear(payload)
    else if (all[at] === PING) pong(payload)
    else throw new Error(`a frame of kind ${all[at]}`)
    at = end
  }
  return all.subarray(at)
}

function lengthOf(all: Buffer, at: number, short: number): number {
  if (short < 126) return short
  return short === 126 ? all.readUInt16BE(at) : Number(all.readBigUInt64BE(at))
}

/** Clients must mask frames; a zero mask leaves the payload unchanged. */
function masked(kind: number, payload: Buffer): Buffer {
  const long = payload.length > 125
  const head = Buffer.alloc(long ? 8 : 6)
  head[0] = kind
  head[1] = 0x80 | (long ? 126 : payload.length)
  if (long) head.writeUInt16BE(payload.length, 2)
  return Buffer.concat([head, payload])
}
