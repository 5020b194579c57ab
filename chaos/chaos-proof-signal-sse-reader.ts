import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { apiKeyHeader, type AgentIdAndApiKey } from './station-http-client.ts'

/** Reads a channel as an event stream and reconnects with its cursor. */
export interface SignalStreamReader {
  /** Ids of all signals in order of arrival. */
  readonly ids: readonly string[]
  /** Signals that the service reported as no longer available. */
  readonly gaps: number
  /** Number of reconnects. */
  readonly reconnects: number
  close(): Promise<void>
}

const RECONNECT_PAUSE_MS = 100
/** Heartbeats arrive every 15 s. */
const SILENCE_TIMEOUT_MS = 20_000

/** Resolves once the stream is open. */
export async function openSignalReader(
  url: string,
  agent: AgentIdAndApiKey,
  channel: string,
): Promise<SignalStreamReader> {
  const pool = new Pool(url, {
    connections: 1,
    headersTimeout: SILENCE_TIMEOUT_MS,
    bodyTimeout: SILENCE_TIMEOUT_MS,
  })
  const ids: string[] = []
  const path = `/api/signal/stream?channels=${encodeURIComponent(channel)}`
  let [cursor, gaps, reconnects, closed] = ['0', 0, -1, false]
  let listens = (): void => undefined
  const listening = new Promise<void>((resolve) => (listens = resolve))

  function take(block: string): void {
    const [, event] = /^event: (.*)$/m.exec(block) ?? []
    const [, id] = /^id: (.*)$/m.exec(block) ?? []
    if (event === 'ready') listens()
    if (event === 'gap') gaps += 1
    if (event === 'signal') ids.push(String(id))
    if (id !== undefined) cursor = id
  }

  async function read(): Promise<void> {
    reconnects += 1
    const headers = { ...apiKeyHeader(agent), 'last-event-id': cursor }
    const { statusCode, body } = await pool.request({ method: 'GET', path, headers })
    if (statusCode !== 200) return body.dump()
    let rest = ''
    for await (const part of body.setEncoding('utf8')) {
      const blocks = `${rest}${String(part)}`.split('\n\n')
      rest = blocks.pop() ?? ''
      blocks.forEach(take)
    }
  }

  const reading = (async () => {
    while (!closed) {
      await read().catch(() => {})
      if (!closed) await sleep(RECONNECT_PAUSE_MS)
    }
  })()
  await listening
  return {
    ids,
    get gaps() {
      return gaps
    },
    get reconnects() {
      return reconnects
    },
    async close() {
      closed = true
      await pool.destroy()
      await reading
    },
  }
}
