import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

/** What befalls a request: it passes, is lost on its way, or only its answer is. */
export type Fate = 'pass' | 'lost' | 'unanswered'

interface Teardown {
  teardown(work: () => unknown): unknown
}

/** A real HTTP server between a client and a node, which can be told to lose requests. */
export async function rpcGate(t: Teardown, target: string) {
  let fateOf: (method: string) => Fate = () => 'pass'
  const seen: string[] = []

  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request)
    const methods = [JSON.parse(body) as unknown]
      .flat()
      .map((one) => (one as { method: string }).method)
    seen.push(...methods)
    const fates = methods.map((method) => fateOf(method))
    if (fates.includes('lost')) return void request.socket.destroy()
    const answer = await fetch(target, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    })
    const said = await answer.text()
    if (fates.includes('unanswered')) return void request.socket.destroy()
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(said)
  }

  const server = createServer((request, response) => {
    pass(request, response).catch(() => request.socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** The methods that were asked, in order. */
    seen,
    /** What happens from now on, by method. */
    decide(fate: (method: string) => Fate): void {
      fateOf = fate
    },
  }
}
