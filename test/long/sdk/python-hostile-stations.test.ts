import t from 'tap'
import {
  encodeMppTerms,
  sampleMppChallengeHeader,
  MPP_QUOTE,
  MPP_TERMS,
  cataloguePage,
  HOSTILE_STATION_PATH_USD_ADDRESS,
  startHostileStation,
} from '../../support/sdk/hostile-station.ts'
import {
  findPythonInterpreters,
  startPythonClient,
  type PythonClientRequest,
} from '../../support/sdk/python-client-driver.ts'

/** The Python file against servers that lie: nothing is paid twice, and each failure is a clear error. */

const pythons = findPythonInterpreters()
if (pythons.length === 0) t.plan(0, 'no Python 3.10 or later')

const CHALLENGE = sampleMppChallengeHeader(encodeMppTerms(MPP_TERMS))
const PAYING = {
  max_per_call_usdc: 0.01,
  max_per_day_usdc: 1,
  mpp: true,
  assets: { 'eip155:4217': { asset: HOSTILE_STATION_PATH_USD_ADDRESS, decimals: 6 } },
}
const quick = { retry_delay: 0.001, max_attempts: 2 }

/** A station that asks for a payment, with any quote. */
const startGreedyStation = (quote: unknown) =>
  startHostileStation(t, (request, reply) => {
    if (request.url === '/api/quote') return void reply.end(JSON.stringify(quote))
    if (request.headers.authorization !== undefined) return void reply.end('{"ok":true}')
    reply.writeHead(402, { 'www-authenticate': CHALLENGE }).end('{"code":"payment_required"}')
  })

for (const python of pythons) {
  /** Asks a new process, whose hook has signed nothing yet. */
  const ask = async (request: PythonClientRequest) => {
    const client = startPythonClient(t, python)
    const answer = await client.ask(request)
    client.end()
    return answer
  }

  t.test(`Python ${python.version}: threads that repeat a call pay it once`, async (t) => {
    const { url, seen } = await startGreedyStation(MPP_QUOTE)
    const client = { url, payment: true, ...quick }
    const same = { what: 'threads', client, hook: PAYING, args: [8, 'x', 'one'] }
    t.strictSame(
      (await ask(same)).result,
      Array.from({ length: 8 }, () => ({ ok: true })),
    )
    const payments = new Set(seen.flatMap(({ headers }) => headers.authorization ?? []))
    t.strictSame([...payments], ['Payment 1'])
  })

  t.test(`Python ${python.version}: the limit of a proxy is waited for`, async (t) => {
    const later = new Date(Date.now() + 3_600_000).toUTCString()
    for (const [says, attempts] of [
      ['', 2],
      ['-1', 2],
      ['Thu, 01 Jan 1970 00:00:00 GMT', 2],
      ['soon', 2],
      ['3600', 1],
      [later, 1],
    ] as const) {
      const { url, seen } = await startHostileStation(t, (_request, reply) =>
        reply.writeHead(429, { 'retry-after': says }).end('<html>'),
      )
      const client = { url, ...quick }
      t.match(await ask({ what: 'call', client, args: ['x'] }), { error: 'RateLimited' }, says)
      t.equal(seen.length, attempts, says)
    }
  })

  t.test(`Python ${python.version}: the catalogue is read from all pages`, async (t) => {
    const { url } = await startHostileStation(t, (request, reply) =>
      reply.end(cataloguePage(request.url)),
    )
    const { result } = await ask({ what: 'catalogue', client: { url, ...quick } })
    t.strictSame(result, [{ slug: 'a' }, { slug: 'b' }, { slug: 'c' }])
  })

  t.test(`Python ${python.version}: a quote or a store that is none pays nothing`, async (t) => {
    const [offer] = MPP_QUOTE.offers
    for (const wrong of [
      null,
      [],
      { ...MPP_QUOTE, price_usdc: '0.005' },
      { ...MPP_QUOTE, price_usdc: true },
      { ...MPP_QUOTE, price_usdc: 1e305 },
      { ...MPP_QUOTE, offers: null },
      { ...MPP_QUOTE, offers: [null] },
      { ...MPP_QUOTE, offers: [{ ...offer, pay_to: 7 }] },
    ]) {
      const { url } = await startGreedyStation(wrong)
      const client = { url, payment: true, ...quick }
      t.match(
        await ask({ what: 'call', client, hook: PAYING, args: ['x'] }),
        { error: 'PaymentNotMade', code: 'quote_malformed' },
        JSON.stringify(wrong),
      )
    }
    const { url } = await startGreedyStation(MPP_QUOTE)
    const client = { url, payment: true, ...quick }
    for (const stored of [7, [null], [['today', 1]], [[1, 'x']], [[1, -5]], [[1]]])
      t.match(
        await ask({ what: 'call', client, hook: { ...PAYING, stored }, args: ['x'] }),
        { error: 'GasStationError', code: 'invalid_store' },
        JSON.stringify(stored),
      )
    const coarse = { 'eip155:4217': { asset: HOSTILE_STATION_PATH_USD_ADDRESS, decimals: 2 } }
    t.match(await ask({ what: 'call', client, hook: { ...PAYING, assets: coarse }, args: ['x'] }), {
      error: 'GasStationError',
      code: 'invalid_asset',
    })
  })

  t.test(`Python ${python.version}: a stream that no station sends is a clear error`, async (t) => {
    for (const text of [
      'event: start\ndata: {"tool"\n\n',
      'event: start\ndata: [1]\n\n',
      'event: start\ndata: \xff\xfe\n\n',
      'event: error\ndata: {"detail":"x"}\n\n',
    ]) {
      const { url } = await startHostileStation(t, (_request, reply) => {
        reply.writeHead(200, { 'content-type': 'text/event-stream' })
        reply.end(Buffer.from(text, 'latin1'))
      })
      const answer = await ask({ what: 'stream', client: { url, ...quick }, args: ['x'] })
      t.match(answer, { error: 'NotAStation' }, JSON.stringify(text))
    }
    const { url } = await startHostileStation(t, (_request, reply) => {
      reply.writeHead(200, { 'content-type': 'text/event-stream' })
      reply.end('id: x\nevent: signal\ndata: {}\n\n')
    })
    const signals = { what: 'signals', client: { url, ...quick }, args: [['a'], null, 1] }
    t.match(await ask(signals), { error: 'NotAStation' })
  })
}
