import { EventEmitter, once } from 'node:events'
import { Agent, createServer, request, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import type { PrivateKeyAccount } from 'viem/accounts'
import { MINUTE, SECOND, createDatabaseAdjustedClock } from '../../../core/clock.ts'
import {
  waitForFinalSettlement,
  assertPaymentsBalance,
  HIVE_TRENDING_PATH,
  postPaidCall,
  HIVE_TRENDING_PRICE_ATOMIC,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  settlementIdOfReply,
  paymentSignatureHeader,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** A node that answers calls of contracts when the test lets it, and everything else at once. */
async function slowNode(target: string) {
  let held: Promise<void> | null = null
  const asked: (() => void)[] = []
  const server = createServer((request, response) => {
    const pass = async () => {
      const body = await text(request)
      if (held !== null && body.includes('eth_call')) {
        for (const tell of asked.splice(0)) tell()
        await held
      }
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(target, { method: 'POST', body, headers })
      response.writeHead(answer.status, headers).end(await answer.text())
    }
    pass().catch(() => request.socket.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Resolves `asked` when a request waits; it continues after `letGo`. */
    hold() {
      let letGo = () => {}
      held = new Promise((resolve) => (letGo = resolve))
      const waiting = new Promise<void>((resolve) => asked.push(resolve))
      return {
        asked: waiting,
        letGo() {
          held = null
          letGo()
        },
      }
    },
  }
}

const till = await startTestPaymentChain(t)
const slow = await slowNode(till.base.rpcUrl)
const clock = createDatabaseAdjustedClock()
const main = await startInProcessTestStation(
  t,
  { ...till.settings, RPC_URL_BASE: slow.url },
  { clock },
)
let ahead = 0
/** Advances the clocks of the station and of the chain. */
async function pass(ms: number): Promise<void> {
  ahead += ms
  clock.adjust(ahead)
  await till.base.client.increaseTime({ seconds: ms / SECOND })
  await till.base.mine(1)
}
/** Valid for a long time, so that the payment does not expire during the delay. */
const signedBy = (payer: PrivateKeyAccount): Promise<Record<string, string>> =>
  paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC, {
    validBefore: BigInt(Math.floor(clock.now() / 1000) + 1_200),
  })

/** A second payment, so that the payer is known to the station. */
async function signed(): Promise<Record<string, string>> {
  const payer = await till.createPayer(2n * HIVE_TRENDING_PRICE_ATOMIC)
  const first = await postPaidCall(main, await signedBy(payer))
  t.equal(first.status, 200, first.text)
  await waitForFinalSettlement(main, settlementIdOfReply(first))
  return signedBy(payer)
}
const holds = () => main.sql`select from timers where id like 'hold:%'`
const claims = async () => (await main.sql`select from actors where kind = 'settlement'`).length

/** The hold of the call that waits is given up. */
async function expireHold(): Promise<void> {
  t.equal((await holds()).length, 1)
  await main.sql`update timers set due_at = now() where id like 'hold:%'`
  // A starting node reads due timers.
  const other = await startInProcessTestStation(t, till.settings, { database: main.database })
  while ((await holds()).length > 0) await wait(20)
  while (
    (await main.sql`select from inbox where absorbed_at is null and receiver_kind = 'payer'`)
      .length > 0
  )
    await wait(20)
  await other.station.close()
}

t.test(
  'a payment whose verification takes too long is not claimed and can be used again',
  async (t) => {
    const { key } = await main.onboard(0)
    const headers = await signed()
    const { asked, letGo } = slow.hold()
    const slowly = main.ask('POST', HIVE_TRENDING_PATH, { key, json: {}, headers })
    await asked
    await expireHold()
    await pass(3 * MINUTE)
    letGo()
    const late = await slowly
    t.match(late, { status: 503, body: { code: 'rail_unavailable' } }, late.text)
    t.equal(await claims(), 1, 'the first one alone')
    const answer = await main.ask('POST', HIVE_TRENDING_PATH, { key, json: {}, headers })
    t.equal(answer.status, 200, answer.text)
    await assertPaymentsBalance(t, main, till, 2n * HIVE_TRENDING_PRICE_ATOMIC)
  },
)

t.test('a hold that ends early leaves the payment usable too', async (t) => {
  const { key } = await main.onboard(0)
  const headers = await signed()
  const { asked, letGo } = slow.hold()
  const slowly = main.ask('POST', HIVE_TRENDING_PATH, { key, json: {}, headers })
  await asked
  await expireHold()
  letGo()
  const late = await slowly
  t.match(late, { status: 409, body: { code: 'call_settled' } }, late.text)
  const answer = await main.ask('POST', HIVE_TRENDING_PATH, { key, json: {}, headers })
  t.equal(answer.status, 200, answer.text)
  await assertPaymentsBalance(t, main, till, 4n * HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('a caller without a key needs no hold', async (t) => {
  const header = await signed()
  const { asked, letGo } = slow.hold()
  const slowly = postPaidCall(main, header)
  await asked
  await pass(3 * MINUTE)
  letGo()
  const answer = await slowly
  t.equal(answer.status, 200, answer.text)
  await assertPaymentsBalance(t, main, till, 6n * HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('a keep-alive client does not delay the shutdown', async (t) => {
  const waiting = new EventEmitter()
  const { base } = await startFixtureServer(t, (_, response) => {
    waiting.once('answer', () => sendJsonFixture(response, {}))
    waiting.emit('asked')
  })
  const main = await startInProcessTestStation(t, { COINGECKO_BASE: base })
  const asked = once(waiting, 'asked')
  const call = main.call(null, 'price_feed', { query: 'BTC' })
  await asked
  const started = performance.now()
  const closed = main.station.close()
  waiting.emit('answer')
  t.match(await call, { status: 503, body: { code: 'price_unavailable' } }, 'what ran is answered')
  await closed
  const took = performance.now() - started
  t.ok(took < 30 * SECOND, `gone after ${Math.round(took)} ms`)
})

t.test('replies in progress at shutdown arrive completely at slow readers too', async (t) => {
  const { base } = await startFixtureServer(t, (_, response) =>
    sendJsonFixture(response, 'x'.repeat(1_000_000)),
  )
  const main = await startInProcessTestStation(t, { SSRF_ALLOW: '127.0.0.1:1024-65535' })
  const { key } = await main.onboard()
  const calls = Array.from({ length: 10 }, () => ({ tool: 'data_retrieval', url: base }))
  const asked = request(`${main.url}/api/pipeline`, {
    method: 'POST',
    agent: new Agent({ keepAlive: true }),
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
  })
  asked.end(JSON.stringify({ calls }))
  const [response] = (await once(asked, 'response')) as [IncomingMessage]
  const closed = main.station.close()
  let body = ''
  for await (const part of response) {
    body += String(part)
    await wait(2) // a slow reader
  }
  t.equal(body.length, Number(response.headers['content-length']))
  const { results } = JSON.parse(body) as { results: unknown[] }
  t.equal(results.length, calls.length)
  t.ok(body.length > calls.length * 1_000_000, 'all that was asked for')
  await closed
})
