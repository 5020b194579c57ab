/** Reads server-sent events from the body of a response. */

export interface SseEvent {
  /** Null where the frame has none. */
  readonly id: string | null
  /** Empty for a frame that moves the cursor only. */
  readonly event: string
  readonly data: string
}

/** Collects events from parts of any size; an unfinished frame is never an event. */
export class SseParser {
  readonly #decoder = new TextDecoder()
  #rest = ''
  #fields: { id: string | null; event: string; data: string[] } = { id: null, event: '', data: [] }

  /** Returns the events that this part completes. */
  push(part: Uint8Array): SseEvent[] {
    this.#rest += this.#decoder.decode(part, { stream: true })
    const events: SseEvent[] = []
    // A CR at the end may be half of a CRLF.
    for (;;) {
      const found = /\r\n|\n|\r(?=[^])/.exec(this.#rest)
      if (found === null) return events
      const line = this.#rest.slice(0, found.index)
      this.#rest = this.#rest.slice(found.index + found[0].length)
      const event = this.#take(line)
      if (event !== null) events.push(event)
    }
  }

  #take(line: string): SseEvent | null {
    if (line === '') {
      const { id, event, data } = this.#fields
      this.#fields = { id: null, event: '', data: [] }
      return id === null && data.length === 0 ? null : { id, event, data: data.join('\n') }
    }
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === 'id') this.#fields.id = value
    if (name === 'event') this.#fields.event = value
    if (name === 'data') this.#fields.data.push(value)
    return null
  }
}

/** Yields the events of a stream until it ends or breaks. */
export async function* readSseEvents(response: Response): AsyncGenerator<SseEvent, void> {
  if (response.body === null) return
  const reader = response.body.getReader()
  const parser = new SseParser()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield* parser.push(value as Uint8Array)
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}
