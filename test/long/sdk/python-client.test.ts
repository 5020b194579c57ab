import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { connect, type AddressInfo, type Server } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { recoverAddress } from 'viem'
import { permit2Digest, X402_EXACT_PROXY_ADDRESS } from '../../../chain/evm/permit2.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { ERROR_DEFINITIONS } from '../../../core/errors.ts'
import { toStationRefusal } from '../../../sdk/index.ts'
import { startConnectionCuttingProxy } from '../../support/http/connection-cutting-proxy.ts'
import {
  assertPaymentsBalance,
  decodePaymentResponse,
  encodeBase64Json,
  startTestStationWithPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  findPythonInterpreters,
  startPythonClient,
  type PythonInterpreter,
} from '../../support/sdk/python-client-driver.ts'

const interpreters = findPythonInterpreters()
if (interpreters.length < 2)
  t.comment(`one other Python is missing: ${interpreters.map(({ version }) => version).join()}`)
if (interpreters.length === 0) t.plan(0, 'no Python 3.10 or later')
else await runAll(interpreters)

async function runAll(pythons: readonly PythonInterpreter[]): Promise<void> {
  const { main, till } = await startTestStationWithPaymentChain(t, { STARTER_CREDITS_USDC: '0.5' })
  const payer = await till.createPayer(1_000_000n)
  const { url } = main
  const quick = { retry_delay: 0.001 }
  let paid = 0n

  const listen = async (server: Server) => {
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
    t.teardown(() => server.close())
    return (server.address() as AddressInfo).port
  }

  for (const python of pythons) {
    const start = (env?: Record<string, string>) =>
      startPythonClient(t, python, {
        sign: (data) => payer.signTypedData(data),
        ...(env === undefined ? {} : { env }),
      })

    t.test(`Python ${python.version}: the shape of the client`, async (t) => {
      const { ask } = start()
      const codes = Object.entries(ERROR_DEFINITIONS).map(([code, { status }]) => [code, status])
      const { result: classes } = await ask({ what: 'classes', args: codes })
      t.strictSame(
        classes,
        Object.fromEntries(
          Object.entries(ERROR_DEFINITIONS).map(([code, { status }]) => [
            code,
            toStationRefusal({ code, status }).constructor.name,
          ]),
        ),
        'both languages have one mapping of codes',
      )
      const { result: agent } = await ask({ what: 'onboard', client: { url, ...quick } })
      const { api_key } = agent as { api_key: string }
      const client = { url, api_key, ...quick }
      const tool = await ask({ what: 'tool', client, args: ['hive_trending', { limit: 2 }] })
      t.match(tool, { result: { _meta: { cost_usdc: 0.005 } } })
      const infinite = await ask({
        what: 'infinite',
        client: { ...client, url: 'http://127.0.0.1:9' },
      })
      t.strictSame(infinite, { result: Array(9).fill('invalid_input') }, 'nothing is sent')
      const task = ['day', 0.005, ['hive_trending']] as const
      t.match(await ask({ what: 'task', client, args: task }), { result: { state: 'completed' } })
      const over = ['day', 0.005, ['hive_trending', 'hive_trending']] as const
      t.match(await ask({ what: 'task', client, args: over }), {
        error: 'BudgetExceeded',
        code: 'task_budget_exceeded',
      })
      const made = await main.ask('POST', '/api/backpack/create', {
        key: api_key,
        json: { fuse: { per_call_usdc: 0.001 } },
      })
      const fused = { ...client, backpack_id: made.body.backpack_id }
      t.match(await ask({ what: 'call', client: fused, args: ['hive_trending'] }), {
        error: 'FuseTripped',
      })
      const wrong = { ...client, api_key: 'gas_wrong' }
      t.match(await ask({ what: 'balance', client: wrong }), { error: 'Unauthenticated' })
      const limit = await ask({ what: 'call', client, args: ['hive_trending', { limit: 0 }] })
      t.match(limit, { error: 'InvalidRequest' })
      const { result: events } = await ask({ what: 'stream', client, args: ['hive_trending'] })
      const names = (events as [string, object][]).map(([event]) => event)
      t.strictSame([names[0], names.at(-1)], ['start', 'result'])
      t.match(await ask({ what: 'balance', client }), { result: { balance_usdc: 0.48 } })
    })

    t.test(`Python ${python.version}: cut answers are repeated and charged once`, async (t) => {
      const { ask } = start()
      const { key } = await main.onboard()
      const proxy = await startConnectionCuttingProxy(t, url)
      const client = { url: proxy.url, api_key: key, ...quick }
      await ask({ what: 'call', client, args: ['hive_trending'] })
      const whole = proxy.lastBytes()
      await ask({ what: 'stream', client, args: ['hive_trending'] })
      const streamed = proxy.lastBytes()
      let calls = 2
      for (const [what, bytes] of [
        ['call', whole],
        ['stream', streamed],
      ] as const)
        for (const cut of [0, 30, bytes >> 1, bytes - 40]) {
          proxy.cutNext(cut, cut)
          const answer = await ask({ what, client, args: ['hive_trending'] })
          t.equal(answer.error, undefined, `${what} cut at ${cut}: ${answer.message}`)
          calls += 1
          const left = await main.balance({ id: '', key })
          t.equal(left, Math.round((0.5 - 0.005 * calls) * 1e6) / 1e6, `charged once`)
        }
    })

    t.test(`Python ${python.version}: pays within its caps, and never twice`, async (t) => {
      const { ask } = start()
      const hook = { max_per_call_usdc: 0.01, max_per_day_usdc: 0.015, address: payer.address }
      const proxy = await startConnectionCuttingProxy(t, url)
      const client = { url: proxy.url, payment: true, ...quick }
      // The 402, the quote, and then the paid call, which is cut twice.
      proxy.cutNext(Infinity, Infinity, 0, 200)
      const first = await ask({ what: 'call', client, hook, args: ['hive_trending'] })
      t.match(first, { result: { _meta: { cost_usdc: 0.005 } } }, String(first.message))
      const second = await ask({ what: 'stream', client, hook, args: ['hive_trending'] })
      t.equal(second.error, undefined, String(second.message))
      // The answer to the payment is lost; the same key brings the same payment, not another one.
      proxy.cutNext(Infinity, Infinity, 0)
      const impatient = { ...client, max_attempts: 1 }
      const named = { idempotency_key: `again-${python.version}` }
      const again = { what: 'call', client: impatient, hook, args: ['hive_trending'], named }
      t.match(await ask(again), { error: 'StationUnreachable' })
      t.match(await ask(again), { result: { _meta: { cost_usdc: 0.005 } } })
      paid += 15_000n
      const third = await ask({ what: 'call', client, hook, args: ['hive_trending'] })
      t.match(third, { error: 'PaymentNotMade', code: 'cap_per_day' })
      const dear = await ask({
        what: 'call',
        client,
        hook,
        args: ['agent_see', { url: 'https://a.b' }],
      })
      t.match(dear, { error: 'PaymentNotMade', code: 'cap_per_call' })
      const other = start()
      const late = { ...hook, max_per_day_usdc: 1 }
      t.match(
        await other.ask({
          what: 'call',
          client,
          hook: late,
          args: ['hive_trending'],
          clock: 7_200,
        }),
        { error: 'PaymentNotMade', code: 'clock_differs', message: /Set the clock/ },
      )
      const uncapped = start()
      t.match(
        await uncapped.ask({
          what: 'call',
          client,
          hook: { ...hook, max_per_day_usdc: 0 },
          args: ['hive_trending'],
        }),
        { error: 'GasStationError', code: 'invalid_cap' },
      )
      await assertPaymentsBalance(t, main, till, paid)
    })

    t.test(`Python ${python.version}: pays on BSC, on Solana and by version 1`, async (t) => {
      const { ask } = start()
      const { bsc, solana } = PAYMENT_NETWORKS
      const payTo = till.treasury
      const terms = { scheme: 'exact', payTo, maxTimeoutSeconds: 300 }
      const amount = String(5n * 10n ** 15n)
      const entries = {
        bsc: {
          ...{ ...terms, network: bsc.caip2, asset: bsc.asset, amount },
          extra: { assetTransferMethod: 'permit2' },
        },
        solana: {
          ...{ ...terms, network: solana.caip2, asset: solana.asset, amount: '5000' },
          extra: { feePayer: 'fees' },
        },
      }
      const caps = { max_per_call_usdc: 0.01, max_per_day_usdc: 1, address: payer.address }
      const pay = async (
        accepts: { network: string; asset: string; amount: string }[],
        v1 = [],
      ) => {
        const offers = accepts.map(({ network, asset, amount }) => ({
          ...{ protocol: 'x402', network, asset, amount, pay_to: payTo },
        }))
        const headers = { 'payment-required': encodeBase64Json({ x402Version: 2, accepts }) }
        const problem = { status: 402, code: 'payment_required', accepts: v1 }
        const sent = v1.length === 0 ? headers : {}
        const args = [problem, sent, { price_usdc: 0.005, offers }, caps]
        const { result, message } = await ask({ what: 'pay', args })
        const [[name, text] = ['', '']] = Object.entries((result ?? {}) as Record<string, string>)
        return { name, message, ...decodePaymentResponse(text === '' ? 'e30=' : text) } as {
          name: string
          message?: string
          payload: Record<string, unknown>
        }
      }
      const permit = await pay([entries.bsc])
      t.match(permit, { name: 'payment-signature', x402Version: 2, accepted: entries.bsc })
      const { permit2Authorization: signed, signature } = permit.payload as {
        permit2Authorization: { nonce: string; deadline: string; spender: string }
        signature: HexString
      }
      t.equal(signed.spender, X402_EXACT_PROXY_ADDRESS)
      const transfer = { from: payer.address, token: bsc.asset, amount: BigInt(amount), to: payTo }
      const hash = permit2Digest(bsc.chainId, {
        ...{ ...transfer, spender: signed.spender, validAfter: 0n },
        nonce: BigInt(signed.nonce),
        deadline: BigInt(signed.deadline),
      })
      t.equal(await recoverAddress({ hash, signature }), payer.address)
      const { payload } = await pay([entries.solana])
      const { asset } = solana
      t.match(JSON.parse(String(payload['transaction'])), { asset, pay_to: payTo, amount: '5000' })
      const v1 = { ...entries.solana, network: 'solana', maxAmountRequired: '5000' }
      t.match(await pay([entries.solana], [v1] as never), {
        ...{ name: 'x-payment', x402Version: 1, network: 'solana' },
        payload: { transaction: String },
      })
      const wrong = { ...entries.solana, asset: solana.asset.toLowerCase() }
      t.match((await pay([wrong])).message, /not the known asset/)
    })

    t.test(`Python ${python.version}: challenges and keys that are ambiguous`, async (t) => {
      const { ask } = start()
      const read = async (header: string) =>
        (await ask({ what: 'challenges', args: [header] })).result
      const good = 'Payment id="a", request="good"'
      t.strictSame(await read(`Bearer realm="x, y", ${good}, Basic realm="c"`), [good])
      t.strictSame(await read(`${good}, Payment id="b", request="bad", header="X"`), [
        good,
        'Payment id="b", request="bad"',
      ])
      for (const header of [
        `${good}, request="bad"`,
        'Payment id="a", request=bad, x-request="good"',
        `${good}, description="`,
      ])
        t.strictSame(await read(header), [], header)
      t.match(
        await ask({ what: 'balance', client: { url, api_key: 'gas_x\ngas_secret', ...quick } }),
        { code: 'invalid_key', message: /^(?!.*secret)/ },
      )
      t.match(await ask({ what: 'balance', client: { url, api_key: 'gas_x\n', ...quick } }), {
        error: 'Unauthenticated',
      })
    })

    t.test(`Python ${python.version}: TLS, proxies, redirects and an absent station`, async (t) => {
      const { ask } = start()
      const balance = (client: object) =>
        ask({ what: 'balance', client: { api_key: 'gas_x', ...quick, max_attempts: 2, ...client } })
      const away = await startConnectionCuttingProxy(t, url)
      away.close()
      t.match(await balance({ url: away.url }), {
        error: 'StationUnreachable',
        message: /does not answer: .*refused/,
      })
      const redirected: (string | undefined)[] = []
      const thief = await listen(
        createHttpServer((request, reply) => {
          redirected.push(request.headers['x-api-key'] as string)
          reply.writeHead(308, { location: 'http://127.0.0.1:1/' }).end()
        }),
      )
      t.match(await balance({ url: `http://127.0.0.1:${thief}` }), { error: 'RedirectRefused' })
      t.equal(redirected.length, 1)

      const folder = t.testdir()
      const [keyFile, certFile] = ['key.pem', 'cert.pem'].map((name) => join(folder, name)) as [
        string,
        string,
      ]
      execFileSync(
        'openssl',
        [
          ...'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1'.split(' '),
          ...['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'],
          ...['-keyout', keyFile, '-out', certFile],
        ],
        { stdio: 'ignore' },
      )
      const tls = await listen(
        createHttpsServer(
          { key: readFileSync(keyFile), cert: readFileSync(certFile) },
          (request, reply) => main.station.server.routing(request, reply),
        ),
      )
      const secure = `https://localhost:${tls}`
      t.match(await balance({ url: secure }), {
        error: 'StationUnreachable',
        code: 'tls_failed',
        message: /certificate verify failed.*ca_file/,
      })
      const { key } = await main.onboard()
      const trusting = { url: secure, api_key: key, ca_file: certFile }
      t.match(await balance(trusting), { result: { balance_usdc: 0.5 } })

      const tunnels: string[] = []
      const proxy = createHttpServer()
      proxy.on('connect', (request, client) => {
        tunnels.push(request.url ?? '')
        const [, port] = (request.url ?? '').split(':')
        const upstream = connect(Number(port), '127.0.0.1', () => {
          client.write('HTTP/1.1 200 OK\r\n\r\n')
          upstream.pipe(client).pipe(upstream)
        })
        for (const socket of [client, upstream]) socket.on('error', () => upstream.destroy())
      })
      const proxyUrl = `http://127.0.0.1:${await listen(proxy)}`
      const proxied = start({ https_proxy: proxyUrl })
      t.match(await proxied.ask({ what: 'balance', client: { ...trusting, ...quick } }), {
        result: { balance_usdc: 0.5 },
      })
      t.strictSame(tunnels, [`localhost:${tls}`], 'by the proxy of the environment')
      t.match(await balance({ ...trusting, proxies: { https: 'http://me:secret@127.0.0.1:9' } }), {
        error: 'StationUnreachable',
        message: /through the proxy http:\/\/127\.0\.0\.1:9: /,
      })
      const refusing = await listen(
        createHttpServer().on('connect', (_request, client) =>
          client.end('HTTP/1.1 403 Forbidden\r\n\r\n'),
        ),
      )
      t.match(await balance({ ...trusting, proxies: { https: `http://127.0.0.1:${refusing}` } }), {
        error: 'StationUnreachable',
        message: /Tunnel connection failed: 403/,
      })
    })
  }
}
