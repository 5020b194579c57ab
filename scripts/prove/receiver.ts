import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

/** A receiver of webhooks on the loopback that takes everything it is sent. */
export interface Receiver {
  readonly port: number
  readonly url: string
  /** How often each `webhook-id` was taken. */
  readonly taken: ReadonlyMap<string, number>
  /** The calls that were told of. */
  readonly calls: ReadonlySet<string>
  /** How long it thinks before it answers. */
  thinks(ms: number): void
  close(): void
}

export async function startReceiver(): Promise<Receiver> {
  const taken = new Map<string, number>()
  const calls = new Set<string>()
  let pauseMs = 0
  const server = createServer((request, response) => {
    void (async () => {
      const { data } = (await json(request)) as { data: Record<string, unknown> }
      const id = String(request.headers['webhook-id'])
      taken.set(id, (taken.get(id) ?? 0) + 1)
      if (typeof data['call_id'] === 'string') calls.add(data['call_id'])
      if (pauseMs > 0) await sleep(pauseMs)
      response.writeHead(204).end()
    })().catch(() => response.destroy())
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}/hook`,
    taken,
    calls,
    thinks: (ms) => void (pauseMs = ms),
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}
