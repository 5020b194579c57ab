import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Told } from '../../realtime/told.ts'
import { CLOSE, type CloseCode } from './frames.ts'

/** What goes out on a socket, and what happens when its reader is too slow for it. */
export interface Outlet {
  /** A frame of the service. */
  send(frame: object): void
  /** An event that must not be lost: a reader too far behind is closed and resumes by its cursor. */
  tell(told: Told): void
  /** The frame of an event, made by who replays it. */
  write(frame: string): void
  /** The state of somebody else: behind, only the latest is kept. */
  tellLatest(told: Told): void
  /** Resolves when there is room for more of what is replayed; false once the socket is closing. */
  room(): Promise<boolean>
  close(code: CloseCode, reason: string): void
}

const COALESCE_BYTES = 262_144
const MOST_BUFFERED_BYTES = 1_048_576
const LOOK_MS = 20
/** A reader that does not read does not answer a close either. */
const CLOSE_MS = 2_000

/**
 * Events that many sockets are told go to their connections as they are, ready for the wire. That
 * keeps the order of messages, since nothing is compressed: the socket writes each of its own at once.
 */
export function outlet(socket: WebSocket, connection: Duplex): Outlet {
  let latest: Told | null = null
  let look: NodeJS.Timeout | undefined
  const isOpen = () => socket.readyState === socket.OPEN

  function write(text: string): void {
    if (!isOpen()) return
    socket.send(text)
    closeIfSlow()
  }

  function tell(told: Told): void {
    if (!isOpen()) return
    const frames = told.frames()
    if (frames.length > 1) connection.cork()
    for (const frame of frames) connection.write(frame)
    if (frames.length > 1) connection.uncork()
    closeIfSlow()
  }

  function closeIfSlow(): void {
    if (socket.bufferedAmount > MOST_BUFFERED_BYTES) close(CLOSE.slow, 'too slow')
  }

  function close(code: CloseCode, reason: string): void {
    clearTimeout(look)
    if (!isOpen()) return
    socket.close(code, reason)
    setTimeout(() => socket.terminate(), CLOSE_MS).unref()
  }

  function tellLatest(told: Told): void {
    latest = told
    if (socket.bufferedAmount <= COALESCE_BYTES) return flush()
    clearTimeout(look)
    look = setTimeout(() => latest !== null && isOpen() && tellLatest(latest), LOOK_MS)
    look.unref()
  }

  function flush(): void {
    const told = latest
    latest = null
    if (told !== null) tell(told)
  }

  return {
    send: (frame) => write(JSON.stringify(frame)),
    tell,
    write,
    tellLatest,
    async room() {
      while (isOpen() && socket.bufferedAmount > COALESCE_BYTES)
        await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
      return isOpen()
    },
    close,
  }
}
