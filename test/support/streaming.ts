import { FRAME, type Body, type Frame } from './client.ts'
import type { Guest, Served } from './station.ts'

/** A call of `POST /api/refuel/stream` that is read piece by piece. */
export interface Streaming {
  /** Everything that has come so far. */
  readonly frames: readonly Frame[]
  /** Reads until an event is of this kind; undefined where the stream ends before. */
  until(fits: (frame: Frame) => boolean): Promise<Frame | undefined>
  /** Reads to the end. */
  rest(): Promise<readonly Frame[]>
  /** Cuts the connection. */
  leave(): void
}

export const isStep =
  (step: string) =>
  ({ event, data }: Frame): boolean =>
    event === 'progress' && data['step'] === step

/** What a tool delivers before its result. */
export const isDelivered = ({ event }: Frame): boolean => event === 'partial' || event === 'text'

/** Opens a stream; what is refused as a whole is an error of the test. */
export async function streaming(
  { url }: Pick<Served, 'url'>,
  guest: Guest | null,
  json: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Streaming> {
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
  const frames: Frame[] = []
  let pending = ''

  async function more(): Promise<boolean> {
    const { value, done } = await reader.read()
    if (done) return false
    const blocks = (pending + value).split('\n\n')
    pending = blocks.pop() ?? ''
    for (const block of blocks) {
      const [, id = null, event = '', data = ''] = FRAME.exec(block) ?? []
      if (event !== '') frames.push({ id, event, data: JSON.parse(data) as Body })
    }
    return true
  }

  async function until(fits: (frame: Frame) => boolean): Promise<Frame | undefined> {
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
    leave: () => leaving.abort(),
  }
}
