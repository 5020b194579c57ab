import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { finished } from 'node:stream'

/**
 * Services whose calls agents sell, in a process of their own until its input ends: a quick one, 200 operations to
 * import, and hostile ones. Each line of the input is a token that proves the origin.
 */

/** A failing tool is left alone after five failures in a row; these answer just often enough. */
const HONEST_EVERY = 4
const OPERATIONS = 200
const FLOOD_PIECE = Buffer.alloc(64 * 1024, 'x')

const tokens = new Set<string>()
const calls = new Map<string, number>()

const sendJson = (reply: ServerResponse, body: unknown): void => {
  reply.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

const hostile: Readonly<Record<string, (reply: ServerResponse) => void>> = {
  '/hang': () => {},
  '/drip': (reply) => {
    reply.writeHead(200, { 'content-type': 'application/json' }).write('{')
    const timer = setInterval(() => reply.write(' '), 1_000)
    finished(reply, () => clearInterval(timer))
  },
  '/flood': (reply) => {
    reply.writeHead(200, { 'content-type': 'application/json' })
    const more = (): void => {
      while (reply.writable && reply.write(FLOOD_PIECE));
      if (reply.writable) reply.once('drain', more)
    }
    more()
  },
  '/schema': (reply) => sendJson(reply, { celsius: 'x'.repeat(100_000) }),
  '/redirect': (reply) => void reply.writeHead(302, { location: 'http://10.0.0.1/' }).end(),
}

function answer({ url: path = '/' }: IncomingMessage, reply: ServerResponse): void {
  if (path === '/.well-known/gas-station.txt') return void reply.end([...tokens].join('\n'))
  if (path === '/openapi.json') return sendJson(reply, manyOperations())
  const count = (calls.get(path) ?? 0) + 1
  calls.set(path, count)
  const trouble = count % HONEST_EVERY === 0 ? undefined : hostile[path]
  if (trouble === undefined) sendJson(reply, { celsius: 21.5 })
  else trouble(reply)
}

const manyOperations = () => ({
  openapi: '3.1.0',
  info: { title: 'Many', version: '1' },
  paths: Object.fromEntries(
    Array.from({ length: OPERATIONS }, (_, at) => [`/things/${at}/{id}`, operation(at)]),
  ),
})

const operation = (at: number) => ({
  get: {
    operationId: `getThing${at}`,
    summary: `A thing of kind ${at}`,
    parameters: [
      { name: 'id', in: 'path', required: true, schema: { type: 'string', maxLength: 40 } },
      { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 100 } },
    ],
    responses: {
      200: {
        description: 'ok',
        content: {
          'application/json': {
            schema: { type: 'object', properties: { celsius: { type: 'number' } } },
          },
        },
      },
    },
  },
})

const server = createServer((request, reply) => {
  request.resume().once('end', () => answer(request, reply))
})
server.listen(0, '127.0.0.1', () => {
  console.log(String((server.address() as AddressInfo).port))
  createInterface(process.stdin)
    .on('line', (token) => {
      tokens.add(token)
      console.log('shown')
    })
    .on('close', () => process.exit(0))
})
