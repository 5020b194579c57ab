import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  sendJsonFixture,
  startFixtureServer,
  UPSTREAM_FAULTS,
  type TeardownScope,
} from './fixture-server.ts'

/** Servers that ask for a payment, and a Bazaar: each host is one of 127.0.0.0/8. */

export const TEST_USDC_ADDRESS = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
export const TEST_PAYEE = '0x00000000000000000000000000000000000beef1'

const base64 = (value: unknown, encoding: 'base64' | 'base64url' = 'base64') =>
  Buffer.from(JSON.stringify(value)).toString(encoding)

const v2 = (amount: string) => ({
  x402Version: 2,
  error: 'Payment required',
  resource: {
    url: 'https://weather.example/forecast',
    description: 'The weather of the next hours.',
    serviceName: 'Weather',
    tags: ['weather', 'forecast'],
  },
  accepts: [
    {
      scheme: 'exact',
      network: 'eip155:8453',
      amount,
      asset: TEST_USDC_ADDRESS,
      payTo: TEST_PAYEE,
      maxTimeoutSeconds: 300,
      extra: { name: 'USD Coin', version: '2' },
    },
  ],
})
const v1 = (amount: string) => ({
  x402Version: 1,
  error: 'Payment required',
  accepts: [
    {
      scheme: 'exact',
      network: 'base',
      maxAmountRequired: amount,
      resource: 'https://weather.example/forecast',
      description: 'The weather of the next hours.',
      mimeType: 'application/json',
      payTo: TEST_PAYEE,
      maxTimeoutSeconds: 300,
      asset: TEST_USDC_ADDRESS,
    },
  ],
})
const mpp = `Payment id="a", realm="weather.example", method="tempo", intent="charge", request="${base64(
  {
    amount: '1500',
    currency: '0x20C000000000000000000000b9537d11c60E8b50',
    methodDetails: { chainId: 4217 },
    recipient: TEST_PAYEE,
  },
  'base64url',
)}"`

/** What a database cannot store: a text whose cut halves a surrogate pair, NUL, and half a pair. */
const LONG_TEXT = `${'a'.repeat(511)}\u{1f600}`
const unstorable = () => {
  const { resource, accepts, ...rest } = v2('2000')
  const tags = ['a\u0000b', '\ud83d']
  const offers = [...accepts, ...accepts.map((one) => ({ ...one, scheme: 'exact\u0000' }))]
  return { ...rest, resource: { ...resource, description: LONG_TEXT, tags }, accepts: offers }
}
/** An address of 1,500 characters whose encoded form is nine times as long. */
const LONG_PATH = Array.from({ length: 1_500 }, (_, at) =>
  String.fromCharCode(0x4e00 + ((at * 7_919) % 20_000)),
).join('')

/** What the servers answer now. */
interface ShownByApis {
  price: string
  token: string
  isDown: boolean
}

const answersOf = (
  shown: ShownByApis,
): Record<string, (request: IncomingMessage, response: ServerResponse) => void> => ({
  '/v2': (_, response) =>
    response.writeHead(402, { 'payment-required': base64(v2(shown.price)) }).end('{}'),
  '/v1': (_, response) => sendJsonFixture(response, v1(shown.price), 402),
  '/mpp': (_, response) => response.writeHead(402, { 'www-authenticate': `Bearer, ${mpp}` }).end(),
  '/all': (_, response) =>
    response
      .writeHead(402, { 'payment-required': base64(v2(shown.price)), 'www-authenticate': mpp })
      .end(JSON.stringify(v1(shown.price))),
  '/free': (_, response) => sendJsonFixture(response, { weather: 'fine' }),
  '/broken': (_, response) =>
    response
      .writeHead(402, {
        'payment-required': base64(v2('2.5')),
        'www-authenticate': 'Payment id="a',
      })
      .end(),
  '/unstorable': (_, response) => sendJsonFixture(response, unstorable(), 402),
  '/redirect': UPSTREAM_FAULTS.redirect,
  '/bomb': UPSTREAM_FAULTS.bomb,
  '/.well-known/gas-station.txt': (_, response) => response.end(`# ours\n${shown.token}\n`),
})

/** Resources of another Bazaar: one with nothing that can be paid, and two of somebody hostile. */
const bazaarPage = (offset: number, own: string) => ({
  x402Version: 2,
  items:
    offset > 0
      ? []
      : [
          { ...v2('9000'), resource: own, type: 'http', serviceName: 'Theirs' },
          { ...v1('8000'), resource: 'https://old.example/', type: 'http' },
          { ...v2('1'), resource: 'javascript:alert(1)', type: 'http' },
          { ...unstorable(), resource: 'https://hostile.example/', description: LONG_TEXT },
          { ...v2('1'), resource: `https://hostile.example/${LONG_PATH}` },
        ],
  pagination: { limit: 100, offset, total: 5 },
})

/** Starts the servers, one process for all hosts. */
export async function startTestPayableApis(t: TeardownScope) {
  const shown: ShownByApis = { price: '2000', token: 'nothing', isDown: false }
  const seen: { host: string; path: string; agent: string; headers: string }[] = []
  const answers = answersOf(shown)
  const site = await startFixtureServer(
    t,
    (request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? '', 'http://x')
      const { host = '', 'user-agent': agent = '' } = request.headers
      seen.push({ host, path: pathname, agent, headers: JSON.stringify(request.headers) })
      if (pathname === '/bazaar/discovery/resources')
        return sendJsonFixture(
          response,
          bazaarPage(Number(searchParams.get('offset')), at(99, '/v2')),
        )
      if (shown.isDown) return void response.writeHead(500).end()
      answers[pathname]?.(request, response)
    },
    '0.0.0.0',
  )
  const at = (host: number, path: string) => `http://127.0.0.${host}:${site.port}${path}`
  return {
    shown,
    base: site.base,
    at,
    allowed: Array.from({ length: 99 }, (_, host) => `127.0.0.${host + 1}:${site.port}`).join(),
    requestsTo: (host: number, path: string) =>
      seen.filter((one) => one.host === `127.0.0.${host}:${site.port}` && one.path === path),
  }
}
