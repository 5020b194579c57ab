import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

/** A local webhook receiver that accepts every delivery. */
export interface TestWebhookReceiver {
  readonly port: number
  readonly url: string
  /** Number of deliveries per `webhook-id`. */
  readonly deliveryCounts: ReadonlyMap<string, number>
  /** Ids of the calls in the deliveries. */
  readonly reportedCalls: ReadonlySet<string>
  /** Sets the delay before each response. */
  setDelay(ms: number): void
  close(): void
}

export async function startTestWebhookReceiver(): Promise<TestWebhookReceiver> {
  const deliveryCounts = new Map<string, number>()
  const reportedCalls = new Set<string>()
  let pauseMs = 0
  const server = createServer((request, response) => {
    void (async () => {
      const { data } = (await json(request)) as { data: Record<string, unknown> }
      const id = String(request.headers['webhook-id'])
      deliveryCounts.set(id, (deliveryCounts.get(id) ?? 0) + 1)
      if (typeof data['call_id'] === 'string') reportedCalls.add(data['call_id'])
      if (pauseMs > 0) await sleep(pauseMs)
      response.writeHead(204).end()
    })().catch(() => response.destroy())
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}/hook`,
    deliveryCounts,
    reportedCalls,
    setDelay: (ms) => void (pauseMs = ms),
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}
