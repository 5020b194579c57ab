import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A TCP proxy in front of a chain's RPC port that delays or drops traffic. */

/** `cut` refuses and drops connections; `silent` accepts everything and never answers. */
type ProxyMode = 'open' | 'cut' | 'silent'

/** A TCP proxy shared by all clients of a chain. */
export interface RpcDelayProxy {
  readonly url: string
  setMode(mood: ProxyMode): void
  close(): void
}

/**
 * Forwards bytes after `delayMs` in each direction, so that a request stays in flight as on a real
 * network: a client that dies meanwhile does not know whether its request arrived.
 */
export async function startRpcDelayProxy(target: string, delayMs: number): Promise<RpcDelayProxy> {
  const { hostname, port } = new URL(target)
  const pairs = new Set<Socket>()
  let mood: ProxyMode = 'open'
  const server = createServer((near) => {
    near.on('error', () => {})
    if (mood === 'cut') return void near.destroy()
    const far = connect(Number(port), hostname)
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      pairs.add(from)
      from.on('error', () => {})
      from.on('data', (bytes) => {
        // Sent bytes arrive even after their sender died.
        setTimeout(() => mood === 'open' && to.writable && to.write(bytes), delayMs)
      })
      from.on('close', () => {
        pairs.delete(from)
        setTimeout(() => to.destroy(), 2 * delayMs)
      })
    }
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    setMode(next) {
      // A connection that lost bytes is unusable.
      if (next !== mood && next !== 'silent') for (const socket of pairs) socket.destroy()
      mood = next
    },
    close() {
      for (const socket of pairs) socket.destroy()
      server.close()
    },
  }
}
