import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A builder's service on this machine: it shows its tokens, and answers each path as a test says. */

/** A call as the builder received it. */
export interface ReceivedToolBuilderCall {
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface TestToolBuilderServer {
  readonly port: number
  readonly url: (path: string) => string
  /** Lines of `/.well-known/gas-station.txt`. */
  readonly tokens: Set<string>
  readonly received: ReceivedToolBuilderCall[]
  /** Runs before each answer with the tokens. */
  beforeProof(work: () => unknown): void
  /** Answers calls of a path. */
  on(path: string, answer: (call: ReceivedToolBuilderCall, reply: ServerResponse) => void): void
}

export const sendJson = (reply: ServerResponse, body: unknown, status = 200): void => {
  reply.writeHead(status, { 'content-type': 'application/json' })
  reply.end(typeof body === 'string' ? body : JSON.stringify(body))
}

export async function startTestToolBuilderServer(t: {
  teardown(work: () => unknown): unknown
}): Promise<TestToolBuilderServer> {
  const tokens = new Set<string>()
  const received: ReceivedToolBuilderCall[] = []
  let beforeProof: () => unknown = () => {}
  const answers = new Map<string, (call: ReceivedToolBuilderCall, reply: ServerResponse) => void>()
  const server = createServer((request, reply) => {
    const path = request.url ?? '/'
    if (path === '/.well-known/gas-station.txt') {
      void Promise.resolve(beforeProof()).then(() => {
        reply.writeHead(200, { 'content-type': 'text/plain' })
        reply.end([...tokens].join('\n'))
      })
      return
    }
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      const call = { path, headers: request.headers, body: Buffer.concat(pieces).toString('utf8') }
      received.push(call)
      const answer = answers.get(path)
      if (answer === undefined) sendJson(reply, { error: 'no such path' }, 404)
      else answer(call, reply)
    })
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: (path) => `http://127.0.0.1:${port}${path}`,
    tokens,
    received,
    beforeProof: (work) => void (beforeProof = work),
    on: (path, answer) => void answers.set(path, answer),
  }
}
