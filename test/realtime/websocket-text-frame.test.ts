import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { encodeWebSocketTextFrame } from '../../realtime/websocket-text-frame.ts'

t.test('a client decodes a frame of any length', async (t) => {
  const texts = [0, 1, 125, 126, 127, 65_535, 65_536, 200_000].map((length) => 'x'.repeat(length))
  texts.push('\u00e9\ud83d\ude00'.repeat(30), '\u00e9'.repeat(63))
  const server = createServer()
  const sockets = new WebSocketServer({ server, perMessageDeflate: false })
  sockets.on('connection', (socket, request) => {
    // Among messages of the socket itself, each stays whole.
    for (const text of texts) {
      request.socket.write(encodeWebSocketTextFrame(text))
      socket.send(text)
    }
    socket.close()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => sockets.close(() => server.close()))
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const heard: string[] = []
  client.on('message', (data, isBinary) => {
    if (!isBinary) heard.push((data as Buffer).toString('utf8'))
  })
  await once(client, 'close')
  t.equal(heard.length, 2 * texts.length)
  t.ok(heard.every((text, at) => text === texts[at >> 1]))
})
