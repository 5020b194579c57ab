import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const TOKEN = 'o'.repeat(40)

t.test('without a token only requests from this machine read the metrics', async (t) => {
  const main = await startInProcessTestStation(t)
  const { port } = new URL(main.url)
  const ask = async (headers: Record<string, string>) =>
    (await main.ask('GET', '/metrics', { headers })).status
  for (const host of [
    `127.0.0.1:${port}`,
    'localhost',
    'LOCALHOST:1',
    `[::1]:${port}`,
    '127.9.9.9',
  ])
    t.equal(await ask({ host }), 200, host)
  for (const host of [
    'gas.test',
    'evil.example:8402',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    '127.0.0.1@evil.example',
    '10.0.0.1',
    '[::2]',
    '0.0.0.0',
  ])
    t.equal(await ask({ host }), 404, `a name that was pointed here: ${host}`)
  for (const name of [
    'X-Forwarded-For',
    'x-forwarded-host',
    'X-Forwarded-Proto',
    'X-Forwarded',
    'Forwarded',
    'Via',
    'X-Real-IP',
    'X-Client-IP',
    'CF-Connecting-IP',
    'CF-Ray',
    'True-Client-IP',
    'Fastly-Client-IP',
    'X-Cluster-Client-IP',
    'X-Original-URL',
    'X-Envoy-External-Address',
    'Fly-Client-IP',
    'X-Amzn-Trace-Id',
    'CDN-Loop',
    'Forwarded-For',
    'X-Amz-Cf-Id',
    'DO-Connecting-IP',
  ])
    t.equal(await ask({ [name]: '127.0.0.1' }), 404, name)
})

t.test('with a token only the token authorizes', async (t) => {
  const main = await startInProcessTestStation(t, { OPERATOR_TOKEN: TOKEN })
  const ask = (headers: Record<string, string>) => main.ask('GET', '/metrics', { headers })
  t.equal((await ask({})).status, 401)
  t.equal((await ask({ authorization: `Bearer ${TOKEN}`, via: '1.1 front' })).status, 200)
})

t.test('a rejection names the defect of the key', async (t) => {
  const main = await startInProcessTestStation(t)
  for (const [headers, detail] of [
    [{ 'x-api-key': '' }, /^X-API-Key is empty/],
    [{ 'x-api-key': ' ' }, /^X-API-Key is empty/],
    [{ authorization: 'Bearer ' }, /^The bearer token is empty/],
    [{ 'x-api-key': 'gas_wrong' }, /^A valid API key is required/],
  ] as const)
    for (const [method, path, json] of [
      ['POST', '/api/refuel', { tool: 'x402_parse', header: 'x' }],
      ['GET', '/api/agent/me', undefined],
    ] as const) {
      const answer = await main.ask(method, path, {
        headers,
        ...(json === undefined ? {} : { json }),
      })
      const body = { code: 'unauthenticated', key_status: 'invalid', detail }
      t.match(answer, { status: 401, body }, `${path} ${answer.text}`)
    }
  const none = await main.ask('GET', '/api/agent/me')
  t.match(none, { status: 401, body: { key_status: 'none' } })
})
