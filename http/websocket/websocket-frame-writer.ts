import { toExactJson } from '../../core/json/exact.ts'
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { EncodedWebSocketAndSseEvents } from '../../realtime/encoded-websocket-and-sse-events.ts'
import { WS_CLOSE_CODES, type WsCloseCode } from './websocket-frames-from-clients.ts'

/** Writes frames to a socket, and handles readers that are too slow. */
export interface WsFrameWriter {
  /** Sends a frame of the service. */
  send(frame: object): void
  /** Sends an event that must not be lost: a reader too far behind is closed and resumes by its cursor. */
  sendEvent(encoded: EncodedWebSocketAndSseEvents): void
  /** Sends an encoded event of a replay. */
  sendRaw(frame: string): void
  /** Sends the state of another agent: a slow reader gets only the latest. */
  sendLatest(encoded: EncodedWebSocketAndSseEvents): void
  /** Resolves to true when a replay may continue, to false when the socket is closing. */
  waitForRoom(): Promise<boolean>
  close(code: WsCloseCode, reason: string): void
}

const COALESCE_BYTES = 262_144
const MAX_BUFFERED_BYTES = 1_048_576
const BUFFER_RECHECK_MS = 20
/** A reader that does not read does not answer a close either, so it is terminated after this. */
const SOCKET_CLOSE_TIMEOUT_MS = 2_000

/**
 * Events sent to many sockets are encoded once and written to the connections directly. Order is kept,
 * because without compression the socket writes its own messages synchronously.
 */
export function createWsFrameWriter(socket: WebSocket, connection: Duplex): WsFrameWriter {
  let latest: EncodedWebSocketAndSseEvents | null = null
  let look: NodeJS.Timeout | undefined
  const isOpen = () => socket.readyState === socket.OPEN

  function write(text: string): void {
    if (!isOpen()) return
    socket.send(text)
    closeIfSlow()
  }

  function writeEvent(encoded: EncodedWebSocketAndSseEvents): void {
    if (!isOpen()) return
    const frames = encoded.frames()
    if (frames.length > 1) connection.cork()
    for (const frame of frames) connection.write(frame)
    if (frames.length > 1) connection.uncork()
    closeIfSlow()
  }

  function closeIfSlow(): void {
    if (socket.bufferedAmount > MAX_BUFFERED_BYTES) close(WS_CLOSE_CODES.slow, 'too slow')
  }

  function close(code: WsCloseCode, reason: string): void {
    clearTimeout(look)
    if (!isOpen()) return
    socket.close(code, reason)
    setTimeout(() => socket.terminate(), SOCKET_CLOSE_TIMEOUT_MS).unref()
  }

  function writeLatest(encoded: EncodedWebSocketAndSseEvents): void {
    latest = encoded
    if (socket.bufferedAmount <= COALESCE_BYTES) return flush()
    clearTimeout(look)
    look = setTimeout(() => latest !== null && isOpen() && writeLatest(latest), BUFFER_RECHECK_MS)
    look.unref()
  }

  function flush(): void {
    const encoded = latest
    latest = null
    if (encoded !== null) writeEvent(encoded)
  }

  return {
    send: (frame) => write(toExactJson(frame)),
    sendEvent: writeEvent,
    sendRaw: write,
    sendLatest: writeLatest,
    async waitForRoom() {
      while (isOpen() && socket.bufferedAmount > COALESCE_BYTES)
        await new Promise((resolve) => setTimeout(resolve, BUFFER_RECHECK_MS))
      return isOpen()
    },
    close,
  }
}
