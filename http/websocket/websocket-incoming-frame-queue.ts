import type { WebSocket } from 'ws'
import type { Clock } from '../../core/clock.ts'
import { rateLimitError } from '../../core/rate-limit-error.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  InvalidWsFrameError,
  WS_CLOSE_CODES,
  parseWsClientFrame,
  type UnvalidatedWsClientFrame,
} from './websocket-frames-from-clients.ts'
import type { WsFrameWriter } from './websocket-frame-writer.ts'
import { createWsFrameRateLimiter } from './websocket-frame-rate-limiter.ts'

/** Handles the frames of a socket in order. */

export interface WsFrameQueueDeps {
  readonly clock: Pick<Clock, 'mono'>
  readonly out: Pick<WsFrameWriter, 'close'>
  handle(frame: UnvalidatedWsClientFrame): Promise<void>
  /** Responds to a frame that was refused or failed. */
  fail(ref: string | null, error: unknown): void
}

/** The rate limit bounds the waiting frames, unless a handler hangs. */
const MAX_WAITING_FRAMES = 100
const FRAME_RATE_LIMIT = {
  name: 'frames',
  subject: 'frames',
  max: LIMITS.framesPerSecond,
  per: 'socket',
  windowSeconds: 1,
} as const

/**
 * Handles frames one after the other, so that each response reflects all frames before it. Must be called
 * before the first await, or frames are lost.
 */
export function createWsFrameQueue(
  socket: WebSocket,
  { clock, out, handle, fail }: WsFrameQueueDeps,
) {
  const take = createWsFrameRateLimiter(clock)
  let last = Promise.resolve()
  let waiting = 0
  let ended = false

  function enqueue(ref: string | null, work: () => Promise<void>): void {
    waiting += 1
    last = last
      .then(() => (socket.readyState === socket.OPEN ? work() : undefined))
      .catch((error: unknown) => fail(ref, error))
      .finally(() => {
        waiting -= 1
      })
  }

  socket.on('message', (data, isBinary) => {
    if (ended) return
    const bytes = data as Buffer
    const pace = take(bytes.length)
    if (pace === 'close') return out.close(WS_CLOSE_CODES.tooMany, 'too many frames')
    let frame: UnvalidatedWsClientFrame
    try {
      if (isBinary) throw new InvalidWsFrameError('frames are text')
      frame = parseWsClientFrame(bytes)
    } catch (error) {
      // Earlier frames are answered first; later ones are not read.
      ended = true
      return enqueue(null, async () => out.close(WS_CLOSE_CODES.badFrame, (error as Error).message))
    }
    if (pace === 'refuse') return fail(frame.ref, rateLimitError(FRAME_RATE_LIMIT, 1))
    if (waiting >= MAX_WAITING_FRAMES)
      return out.close(WS_CLOSE_CODES.tooMany, 'too many frames wait')
    enqueue(frame.ref, () => handle(frame))
  })
  return { enqueue }
}
