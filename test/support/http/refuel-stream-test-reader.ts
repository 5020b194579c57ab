import { SSE_FRAME_PATTERN, type TestReplyBody, type SseFrame } from './test-http-client.ts'
import type { TestAgent, TestStation } from '../station/start-test-station.ts'

/** A call of `POST /api/refuel/stream`, read frame by frame. */
export interface RefuelStreamReader {
  /** All frames received so far. */
  readonly frames: readonly SseFrame[]
  /** Reads until an event matches; undefined when the stream ends first. */
  until(fits: (frame: SseFrame) => boolean): Promise<SseFrame | undefined>
  /** Reads to the end. */
  rest(): Promise<readonly SseFrame[]>
  /** Closes the connection. */
  disconnect(): void
}

export const isProgressEventOfStep =
  (step: string) =>
  ({ event, data }: SseFrame): boolean =>
    event === 'progress' && data['step'] === step

/** Whether the event is tool output before the result. */
export const isToolOutputSseFrame = ({ event }: SseFrame): boolean =>
  event === 'partial' || event === 'text'

/** Opens a stream; throws when the request is rejected. */
export async function openRefuelStream(
  { url }: Pick<TestStation, 'url'>,
  guest: TestAgent | null,
  json: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<RefuelStreamReader> {
  const leaving = new AbortController()
  const answer = await fetch(`${url}/api/refuel/stream`, {
    method: 'POST',
    signal: leaving.signal,
    headers: {
      'content-type': 'application/json',
      ...(guest === null ? {} : { 'x-api-key': guest.key }),
      ...headers,
    },
    body: JSON.stringify(json),
  })
  if (answer.status !== 200 || answer.body === null)
    throw new Error(`the stream answered ${answer.status}: ${await answer.text()}`)
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  const frames: SseFrame[] = []
  let pending = ''

  async function more(): Promise<boolean> {
    const { value, done } = await reader.read()
    if (done) return false
    const blocks = (pending + value).split('\n\n')
    pending = blocks.pop() ?? ''
    for (const block of blocks) {
      const [, id = null, event = '', data = ''] = SSE_FRAME_PATTERN.exec(block) ?? []
      if (event !== '') frames.push({ id, event, data: JSON.parse(data) as TestReplyBody })
    }
    return true
  }

  async function until(fits: (frame: SseFrame) => boolean): Promise<SseFrame | undefined> {
    for (;;) {
      const found = frames.find(fits)
      if (found !== undefined) return found
      if (!(await more())) return undefined
    }
  }

  return {
    frames,
    until,
    async rest() {
      await until(() => false)
      return frames
    },
    disconnect: () => leaving.abort(),
  }
}
