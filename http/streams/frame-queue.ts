import type { WebSocket } from 'ws'
import type { Clock } from '../../core/clock.ts'
import { limited } from '../../core/limited.ts'
import { LIMITS } from '../../core/limits.ts'
import { BadFrame, CLOSE, parseFrame, type RawFrame } from './frames.ts'
import type { Outlet } from './outlet.ts'
import { pace } from './pace.ts'

export interface FrameQueueParts {
  readonly clock: Pick<Clock, 'mono'>
  readonly out: Pick<Outlet, 'close'>
  handle(frame: RawFrame): Promise<void>
  /** Answers a frame that was refused, or failed. */
  fail(ref: string | null, error: unknown): void
}

/** The pace bounds the number of frames that wait, unless nothing ends. */
const MOST_WAITING = 100
const FRAMES = {
  name: 'frames',
  what: 'frames',
  most: LIMITS.framesPerSecond,
  per: 'socket',
  seconds: 1,
} as const

/**
 * Takes the frames of a socket in their order, one after the other: an answer stands on everything
 * that was asked before it. Call it before anything is awaited, or frames are lost.
 */
export function frameQueue(socket: WebSocket, { clock, out, handle, fail }: FrameQueueParts) {
  const take = pace(clock)
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
    const pace = take()
    if (pace === 'close') return out.close(CLOSE.tooMany, 'too many frames')
    let frame: RawFrame
    try {
      if (isBinary) throw new BadFrame('frames are text')
      frame = parseFrame((data as Buffer).toString('utf8'))
    } catch (error) {
      // The frames before it are answered first; those behind it are not read.
      ended = true
      return enqueue(null, async () => out.close(CLOSE.badFrame, (error as Error).message))
    }
    if (pace === 'refuse') return fail(frame.ref, limited(FRAMES, 1))
    if (waiting >= MOST_WAITING) return out.close(CLOSE.tooMany, 'too many frames wait')
    enqueue(frame.ref, () => handle(frame))
  })
  return { enqueue }
}
