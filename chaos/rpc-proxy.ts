import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** `cut` refuses and drops; `silent` takes everything and answers nothing. */
type ProxyMode = 'open' | 'cut' | 'silent'

/** A socket in front of a chain: what happens to it happens to everybody behind it. */
export interface RpcProxy {
  readonly url: string
  setMode(mood: ProxyMode): void
  close(): void
}

/**
 * Passes bytes on after `delayMs` each way, so that a request and its answer are under way for as
 * long as on a network: whoever dies in that time has sent something and does not know it.
 */
export async function startRpcProxy(target: string, delayMs: number): Promise<RpcProxy> {
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
        // What has been sent arrives, even when its sender is gone by then.
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
      // A connection that has lost bytes is of no use afterwards.
      if (next !== mood && next !== 'silent') for (const socket of pairs) socket.destroy()
      mood = next
    },
    close() {
      for (const socket of pairs) socket.destroy()
      server.close()
    },
  }
}
