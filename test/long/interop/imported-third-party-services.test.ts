import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { registerExactEvmScheme } from '@x402/evm/exact/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { Receipt } from 'mppx'
import { Mppx, tempo } from 'mppx/client'
import t, { type Test } from 'tap'
import { createClient, http } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { tempo as tempoChain } from 'viem/tempo/chains'
import { findFreePort } from '../../../chaos/free-port.ts'
import { startLocalTempo } from '../../support/chain/local-chain.ts'
import { PATH_USD_ADDRESS } from '../../support/payments/sample-tempo-charges.ts'
import { decodePaymentResponse } from '../../support/payments/test-station-with-payment-chain.ts'
import { INTEROP_FOLDER, withInteropWorkspace } from '../../support/interop/interop-workspace.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/**
 * An MCP server and a REST service of others, from npm, imported with one command each and sold: for credits, to
 * `@x402/fetch` and to `mppx`.
 */

const OPERATOR_TOKEN = 'o'.repeat(32)
const CREDENTIAL = 'Bearer a-credential-of-the-pet-shop'
const modules = (...path: string[]) => join(INTEROP_FOLDER, 'node_modules', ...path)

/** Starts a program of `interop/` with an empty environment; it ends with the test. */
async function startProgram(t: Test, args: string[], url: string, env: NodeJS.ProcessEnv = {}) {
  const child = spawn(process.execPath, args, { cwd: INTEROP_FOLDER, env, stdio: 'ignore' })
  t.teardown(() => child.kill('SIGKILL'))
  const answers = () =>
    fetch(url).then(
      () => true,
      () => false,
    )
  await eventually(answers, `${args[0]} answers`)
}

await withInteropWorkspace(t, 'services of others are imported and sold', ({ till }) => {
  t.test('one command each', async (t) => {
    const [mcpPort, petPort] = [await findFreePort(), await findFreePort()]
    const document = modules('@readme/oas-examples/3.1/json/petstore.json')
    const site = await startFixtureServer(t, (_, response) =>
      sendJsonFixture(response, JSON.parse(readFileSync(document, 'utf8'))),
    )
    const [mcp, pets] = [`http://127.0.0.1:${mcpPort}`, `http://127.0.0.1:${petPort}`]
    await Promise.all([
      startProgram(
        t,
        [modules('@modelcontextprotocol/server-everything/dist/index.js'), 'streamableHttp'],
        mcp,
        { PORT: String(mcpPort) },
      ),
      startProgram(
        t,
        [
          modules('@stoplight/prism-cli/dist/index.js'),
          'mock',
          '-h',
          '127.0.0.1',
          '-p',
          String(petPort),
          document,
        ],
        pets,
      ),
    ])
    const chain = await startLocalTempo()
    t.teardown(chain.stop)
    const main = await startInProcessTestStation(t, {
      ...till.settings,
      RPC_URL_TEMPO: chain.rpcUrl,
      MPP_CURRENCY: PATH_USD_ADDRESS,
      OPERATOR_TOKEN,
      SSRF_ALLOW: [mcpPort, petPort, site.port].map((port) => `127.0.0.1:${port}`).join(),
    })
    const [seller, buyer] = [await main.onboard(), await main.onboard()]
    const sell = (json: object) =>
      main.ask('POST', '/api/tools/import', {
        key: seller.key,
        json: { price_per_call_usdc: 0.01, accepts_promo: true, ...json },
        headers: { 'x-operator-token': OPERATOR_TOKEN },
      })
    const buy = (slug: string, json: object) =>
      main.ask('POST', `/api/tools/${slug}/invoke`, { key: buyer.key, json })

    const greeter = await sell({
      mcp_url: `${mcp}/mcp`,
      prefix: 'every',
      include: ['echo', 'get-sum'],
    })
    t.match(greeter, { status: 201, body: { count: 2 } }, greeter.text.slice(0, 300))
    t.match(await buy('every-get-sum', { a: 20, b: 22 }), {
      status: 200,
      body: { content: [{ text: /42/ }], _meta: { cost_usdc: 0.01 } },
    })
    t.match(await buy('every-get-sum', { a: 'x', b: 22 }), { status: 400 })

    const shop = await sell({
      openapi_url: `${site.base}/petstore.json`,
      base_url: pets,
      prefix: 'pets',
      upstream_header: 'Authorization',
      upstream_value: CREDENTIAL,
    })
    t.equal(shop.status, 201, shop.text.slice(0, 300))
    const slugs = (shop.body['tools'] as { slug: string }[]).map(({ slug }) => slug)
    t.ok(slugs.includes('pets-find-pets-by-status') && slugs.length >= 6, slugs.join())
    t.notOk(slugs.includes('pets-add-pet'), 'only GET')
    t.match(await buy('pets-find-pets-by-status', { status: ['available'] }), {
      status: 200,
      body: { status: 200, data: [{ name: 'doggie' }], _meta: { cost_usdc: 0.01 } },
    })
    t.match(await buy('pets-find-pets-by-status', { status: ['stolen'] }), { status: 400 })
    t.equal(await main.balance(buyer), 0.48)

    const payer = new x402Client()
    registerExactEvmScheme(payer, { signer: await till.createPayer(20_000n) })
    const getClient = () =>
      createClient({ chain: tempoChain, transport: http(chain.rpcUrl), pollingInterval: 50 })
    /** A new payer: the local chain keeps a second transaction of one payer waiting. */
    const newMppClient = async () => {
      const account = privateKeyToAccount(generatePrivateKey())
      await chain.mint(account.address, 1_000_000n)
      return Mppx.create({ polyfill: false, methods: [tempo.charge({ account, getClient })] })
    }
    const keyless = (body: object) => ({
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const bought = [
      ['every-get-sum', { a: 20, b: 22 }, /42/],
      ['pets-find-pets-by-status', { status: ['available'] }, /doggie/],
    ] as const
    for (const [slug, body, answer] of bought) {
      const url = `${main.url}/api/tools/${slug}/invoke`
      const byX402 = await wrapFetchWithPayment(fetch, payer)(url, keyless(body))
      const text = await byX402.text()
      t.equal(byX402.status, 200, text)
      t.match(text, answer)
      const paid = decodePaymentResponse(byX402.headers.get('payment-response') ?? '')
      t.match(paid, { success: true, transaction: /^0x[0-9a-f]{64}$/ }, 'settled before the answer')
      const byMpp = await (await newMppClient()).fetch(url, keyless(body))
      t.match(await byMpp.clone().text(), answer)
      t.match(Receipt.fromResponse(byMpp), { status: 'success' })
    }
    const [share] = await main.sql<{ sum: bigint }[]>`
      select sum(amount_micros)::bigint as sum from transfers
       where kind = 'share' and debit like 'owed:%' and credit = ${`agent:${seller.id}:cash`}`
    t.equal(share?.sum, 24_000n, '60 % of four purchases on two chains')
    await main.verify()
  })
})
