import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { installGracefulHttpServerClose } from '../../app/finish-http-responses-on-close.ts'
import { createNonWebSocketUpgradeIgnorer } from '../../http/websocket/separate-websocket-from-other-upgrades.ts'
import { createTestServer } from '../support/http/test-fastify-server-with-custom-routes.ts'

async function reader(t: Test, port: number) {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

t.test('a client that requested an upgrade is closed like any other', async (t) => {
  const server = createServer({ keepAliveTimeout: 0 }, (_request, response) => {
    response.end('done')
  })
  createNonWebSocketUpgradeIgnorer(server)
  installGracefulHttpServerClose(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = await reader(t, (server.address() as AddressInfo).port)
  socket.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n')
  t.match(await once(socket, 'data'), [/200 OK/])
  server.close()
  await once(server, 'close')
  t.pass('it does not wait for the client')
})

t.test('a request that never ends does not block the shutdown', async (t) => {
  const { app } = await createTestServer(t)
  app.post('/slow', { config: { auth: 'none' } }, async () => ({}))
  installGracefulHttpServerClose(app.server)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const socket = await reader(t, (app.server.address() as AddressInfo).port)
  const asked = once(app.server, 'request')
  socket.write(
    'POST /slow HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{',
  )
  await asked
  app.server.requestTimeout = 20
  const said = once(socket, 'data')
  const closed = app.close()
  t.match(await said, [/^HTTP\/1\.1 408 /])
  await closed
})
