import type { ToolEvent } from '../tools/define-tool.ts'

/**
 * What a running tool tells its caller. Progress passes at once; what it delivers is held until the
 * commit of the charge, since a call that fails later gives its money back (decision 149).
 */
export function createToolOutputBuffer(pass: (event: ToolEvent) => void) {
  const held: ToolEvent[] = []
  return {
    emit(event: ToolEvent): void {
      if (event.type === 'progress') pass(event)
      else held.push(event)
    },
    /** Hands on what was held, in its order: the charge has committed. */
    deliver(): void {
      for (const event of held.splice(0)) pass(event)
    },
  }
}
