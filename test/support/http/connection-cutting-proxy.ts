import { connect, createServer, type AddressInfo } from 'node:net'

/** A TCP proxy in front of a station that cuts connections in the middle of an answer. */
export interface ConnectionCuttingProxy {
  readonly url: string
  /** Cuts the answers of the next connections after this many bytes each, in order. */
  cutNext(...bytes: number[]): void
  /** Cuts that no connection has met yet. */
  readonly pendingCuts: () => number
  /** Breaks all connections. */
  breakAll(): void
  /** Bytes of the last answer that was forwarded whole. */
  readonly lastBytes: () => number
  close(): void
}

/** Starts a proxy to the origin `target`. */
export async function startConnectionCuttingProxy(
  t: { teardown(work: () => unknown): unknown },
  target: string,
): Promise<ConnectionCuttingProxy> {
  const cuts: number[] = []
  let lastBytes = 0
  const { hostname, port } = new URL(target)
  const sockets = new Set<{ destroy(): void }>()
  const server = createServer((client) => {
    const left = cuts.shift() ?? Infinity
    let sent = 0
    const upstream = connect(Number(port), hostname)
    for (const socket of [client, upstream]) sockets.add(socket)
    const end = () => {
      client.destroy()
      upstream.destroy()
      for (const socket of [client, upstream]) sockets.delete(socket)
    }
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end)
    client.on('data', (part) => upstream.write(part))
    upstream.on('data', (part: Buffer) => {
      const room = Math.max(0, left - sent)
      sent += part.length
      lastBytes = sent
      if (part.length < room) client.write(part)
      // What was written is sent, then the connection breaks.
      else client.end(part.subarray(0, room))
    })
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  const breakAll = () => sockets.forEach((socket) => socket.destroy())
  const close = () => {
    server.close()
    breakAll()
  }
  t.teardown(close)
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cutNext: (...bytes) => void cuts.push(...bytes),
    breakAll,
    lastBytes: () => lastBytes,
    pendingCuts: () => cuts.length,
    close,
  }
}
