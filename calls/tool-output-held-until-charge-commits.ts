import type { ToolStreamEvent } from '../tools/define-tool.ts'

/**
 * Buffers a tool's events. Progress passes at once; output waits for the commit of the charge,
 * because a call that fails later is refunded (decision 149).
 */
export function createOutputBufferUntilCharge(pass: (event: ToolStreamEvent) => void) {
  const held: ToolStreamEvent[] = []
  return {
    emit(event: ToolStreamEvent): void {
      if (event.type === 'progress') pass(event)
      else held.push(event)
    },
    /** Passes on the buffered events after the charge has committed. */
    deliver(): void {
      for (const event of held.splice(0)) pass(event)
    },
  }
}
