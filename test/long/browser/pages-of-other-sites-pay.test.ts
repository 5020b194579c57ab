import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { build } from 'esbuild'
import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { startLocalTempo } from '../../support/chain/local-chain.ts'
import {
  launchChromium,
  skipWithoutChromium,
} from '../../support/inspector/open-inspector-in-chromium.ts'
import { TEMPO_DEV_ACCOUNT_KEY } from '../../support/payments/sample-tempo-charges.ts'
import { startTestStationWithPaymentChain } from '../../support/payments/test-station-with-payment-chain.ts'

/** Unmodified payment clients in a page of another site. */

const PATH_USD = '0x20c0000000000000000000000000000000000000'

/** What the page runs, as a bundler makes it for a site. */
const PAGE = `
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { registerExactEvmScheme } from '@x402/evm/exact/client'
import { Mppx, tempo } from 'mppx/client'
import { createClient, http } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { tempo as chain } from 'viem/tempo/chains'
const post = (headers = {}) => ({
  method: 'POST', body: '{}', headers: { 'content-type': 'application/json', ...headers },
})
const told = async (reply) => ({
  status: reply.status,
  text: (await reply.text()).slice(0, 300),
  seen: Object.fromEntries(reply.headers),
})
window.run = {
  fetch: async (url, init) => told(await fetch(url, init)),
  async x402(url, key, headers) {
    const client = new x402Client()
    registerExactEvmScheme(client, { signer: privateKeyToAccount(key) })
    return told(await wrapFetchWithPayment(fetch, client)(url, post(headers)))
  },
  async mpp(url, key, rpc) {
    const getClient = () => createClient({ chain, transport: http(rpc) })
    const method = tempo({ account: privateKeyToAccount(key), getClient })
    const payer = Mppx.create({ polyfill: false, methods: [method] })
    return told(await payer.fetch(url, post()))
  },
}
`

/** A site of another origin with the page. */
async function startSite(): Promise<{ url: string; close(): void }> {
  const { outputFiles } = await build({
    stdin: { contents: PAGE, resolveDir: REPOSITORY_ROOT, loader: 'js' },
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    logLevel: 'error',
  })
  const script = outputFiles[0]?.text ?? ''
  const server = createServer(({ url }, reply) => {
    const isScript = url === '/page.js'
    reply.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
    reply.end(isScript ? script : '<script type="module" src="/page.js"></script>')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://localhost:${port}/`, close: () => server.close() }
}

interface Told {
  readonly status: number
  readonly text: string
  readonly seen: Readonly<Record<string, string>>
}

if (skipWithoutChromium !== false) t.plan(0, skipWithoutChromium)
else await run()

async function run(): Promise<void> {
  const node = await startLocalTempo()
  t.teardown(() => node.stop())
  const { main, till } = await startTestStationWithPaymentChain(t, {
    RPC_URL_TEMPO: node.rpcUrl,
    MPP_CURRENCY: PATH_USD,
    MPP_SECRET: 'm'.repeat(32),
  })
  const site = await startSite()
  t.teardown(site.close)
  const browser = await launchChromium()
  t.teardown(() => browser.close())
  const page = await browser.newPage()
  const faults: string[] = []
  page.on('console', (message) => {
    if (/CORS|blocked/i.test(message.text())) faults.push(message.text())
  })
  await page.goto(site.url)
  await page.waitForFunction('window.run !== undefined')
  const call = (name: string, ...args: unknown[]): Promise<Told> =>
    page.evaluate(`window.run.${name}(...${JSON.stringify(args)})`)
  const tool = `${main.url}/api/t/hive_trending`

  t.test('@x402/fetch pays, with the headers of a tracing library too', async (t) => {
    for (const headers of [
      {},
      { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, baggage: 'a=b', 'x-trace': '1' },
    ]) {
      const key = generatePrivateKey()
      await till.mintUsdc(privateKeyToAccount(key).address, 1_000_000n)
      const paid = await call('x402', tool, key, headers)
      t.match(paid, { status: 200, seen: { 'payment-response': /./, 'x-request-id': /./ } })
    }
  })

  t.test('mppx pays', async (t) => {
    const paid = await call('mpp', tool, TEMPO_DEV_ACCOUNT_KEY, node.rpcUrl)
    t.match(paid, { status: 200, seen: { 'payment-receipt': /./ } }, paid.text)
  })

  t.test(
    'the lists of a Bazaar and the documents are read, and asked for again by tag',
    async (t) => {
      for (const path of ['/discovery/resources', '/.well-known/x402', '/api/openapi.json'])
        t.match(await call('fetch', `${main.url}${path}`), { status: 200 }, path)
      const { seen } = await call('fetch', `${main.url}/api/tools`)
      t.match(seen, { etag: /./, ratelimit: undefined })
      const headers = { 'if-none-match': seen['etag'], 'x-request-id': 'page-1' }
      t.match(await call('fetch', `${main.url}/api/tools`, { headers }), { status: 304 })
    },
  )

  t.test('nothing else is read', async (t) => {
    t.strictSame(faults, [])
    for (const [path, init] of [
      ['/owner', {}],
      ['/metrics', {}],
      ['/api/agent/me', { credentials: 'include' }],
      ['/api/tools', { headers: { 'x-owner-agent': 'x' } }],
    ] as const)
      await t.rejects(call('fetch', `${main.url}${path}`, init), /Failed to fetch/, path)
  })
}
