import { runAfterPendingSocketInput } from './run-after-pending-socket-input.ts'

/** An interval that runs only while there is something to look at. */
export interface IntervalWhileNeeded {
  /** There is something to look at. */
  start(): void
  stop(): void
}

/**
 * Calls `look` every `everyMs` from `start` on, once pending input is read, and ends at the first time at which
 * `isNeeded` is false.
 */
export function createIntervalWhileNeeded(
  look: () => void,
  everyMs: number,
  isNeeded: () => boolean,
): IntervalWhileNeeded {
  let timer: NodeJS.Timeout | undefined
  const stop = (): void => {
    clearInterval(timer)
    timer = undefined
  }
  const tick = (): void => (isNeeded() ? runAfterPendingSocketInput(look) : stop())
  return { start: () => void (timer ??= setInterval(tick, everyMs).unref()), stop }
}
