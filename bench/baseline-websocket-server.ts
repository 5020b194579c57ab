import { createInterface } from 'node:readline'
import websocket from '@fastify/websocket'
import fastify from 'fastify'
import type { WebSocket } from 'ws'
import type { AgentSignal } from '../persistence/realtime/channel-signal-store.ts'
import { toSignalWebSocketFrame } from '../realtime/realtime-event-views.ts'

/**
 * Baseline WebSocket server: the same server and frames, sent to every socket in a loop. It stores,
 * checks and charges nothing and has no catch-up.
 */

const listening = new Set<WebSocket>()
const app = fastify()
await app.register(websocket)

app.get('/api/ws', { websocket: true }, (socket) => {
  socket.send(JSON.stringify({ type: 'ready' }))
  socket.on('message', () => {
    listening.add(socket)
    socket.send(JSON.stringify({ type: 'ack', ref: '1', ok: true }))
  })
  socket.on('close', () => listening.delete(socket))
})

const TTL_MS = 3_600_000
let id = 0n
app.post('/api/signal/publish', async ({ body }) => {
  const { channel, type, payload } = body as Pick<AgentSignal, 'channel' | 'type' | 'payload'>
  const at = new Date()
  const expiresAt = new Date(at.getTime() + TTL_MS)
  const from = '00000000-0000-7000-8000-000000000000'
  const frame = toSignalWebSocketFrame({
    id: (id += 1n),
    channel,
    type,
    from,
    payload,
    at,
    expiresAt,
  })
  for (const socket of listening) socket.send(frame)
  return { id: String(id) }
})

const address = await app.listen({ port: 0, host: '127.0.0.1' })
console.log(JSON.stringify({ url: address, pid: process.pid }))
createInterface(process.stdin).once('close', () => process.exit())
