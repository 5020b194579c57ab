import t, { type Test } from 'tap'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'
import {
  paymentSignatureHeader,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  spawnSecondNode,
  type ChildProcessStation,
} from '../../support/station/start-test-station.ts'
import { startTestCommunityToolMarket } from '../../support/tools/test-community-tool-market.ts'
import { sendJson } from '../../support/tools/test-tool-builder-server.ts'

/**
 * A station that is killed at each step of a call of a community tool without a key, and the one that is started
 * after it: no builder works unpaid for a settled answer or is paid twice, and the payer gets what it pays for.
 */

const PRICE = 10_000n
const PATH = '/api/tools/weather-now/invoke'

/** A promise and what resolves it. */
function createSignal() {
  let give = () => {}
  const given = new Promise<void>((resolve) => (give = resolve))
  return { given, give: () => give() }
}

/** A tool for sale, and stations as processes that know only the database; the one that sold it is closed. */
async function startCrashScene(t: Test) {
  const till = await startTestPaymentChain(t)
  const gate = await startRpcFaultProxy(t, till.base.rpcUrl)
  const market = await startTestCommunityToolMarket(t, {}, till.settings)
  const { builder, station, settings, cashOf, seller } = market
  builder.on('/weather', (_, reply) => sendJson(reply, { celsius: 21.5 }))
  await market.open('weather-now', '/weather')
  await station.station.close()
  const start = () => spawnSecondNode(t, station, { ...settings, RPC_URL_BASE: gate.url })
  const header = await paymentSignatureHeader(await till.createPayer(PRICE), till, PRICE)
  return {
    ...{ till, gate, builder, start },
    sql: station.sql,
    verify: station.verify,
    worked: () => builder.received.filter(({ path }) => path === '/weather').length,
    sellerCash: () => cashOf(seller),
    buy: (at: ChildProcessStation) =>
      at.ask('POST', PATH, { json: { city: 'Rome' }, headers: header }),
    async state(): Promise<string> {
      const [row] = await station.sql<{ state: string }[]>`
        select (state->'value'->>'money') || '/' || (state->'value'->>'delivery') as state
          from actors where kind = 'settlement'`
      return row?.state ?? ''
    },
  }
}
type CrashScene = Awaited<ReturnType<typeof startCrashScene>>

/** Buys at a station that is killed when `reached` resolves; the buyer hears nothing. */
async function killDuringPurchase(scene: CrashScene, reached: () => Promise<unknown>) {
  const doomed = await scene.start()
  const lost = scene.buy(doomed).catch(() => null)
  await reached()
  await doomed.end('SIGKILL')
  return lost
}

/** One settled payment: the builder has its share, once, and the payer's request is answered, once. */
async function assertSoldOnce(t: Test, scene: CrashScene, worked: number) {
  t.equal(scene.worked(), worked, 'calls of the builder')
  t.equal(await scene.state(), 'settled/delivered')
  t.equal(await scene.till.treasuryBalance(), PRICE, 'paid once')
  t.equal(await scene.sellerCash(), 0.006, 'its builder is paid once')
  const calls = await scene.sql`select from calls where tool = 'weather-now'`
  t.equal(calls.length, 1)
  await scene.verify()
}

await t.test('killed while the builder works: the authorization is not used up', async (t) => {
  const scene = await startCrashScene(t)
  const working = createSignal()
  scene.builder.on('/weather', working.give)
  t.equal(await killDuringPurchase(scene, () => working.given), null)
  t.equal(await scene.state(), 'claimed/waiting')
  t.equal(await scene.sellerCash(), 0)
  await scene.verify()

  scene.builder.on('/weather', (_, reply) => sendJson(reply, { celsius: 22.5 }))
  const waiting = await scene.start()
  const early = await scene.buy(waiting)
  t.match(early, { status: 409, body: { code: 'payment_in_progress' } }, 'the claim still stands')
  await waiting.end('SIGKILL')
  // A starting node reads due timers.
  await scene.sql`update timers set due_at = now()`
  const next = await scene.start()
  await eventually(async () => (await scene.state()) === 'released/waiting', 'the claim expires')
  t.equal(await scene.till.treasuryBalance(), 0n, 'nothing was sent')
  t.match(await scene.buy(next), { status: 200, body: { celsius: 22.5 } })
  await assertSoldOnce(t, scene, 2)
})

/** Where the station is killed after the builder has answered, by the request to the chain that it hangs in. */
const AFTER_THE_ANSWER = {
  'before the payment is sent': {
    method: 'eth_sendRawTransaction',
    reaches: false,
  },
  'after it was sent, before that is known': {
    method: 'eth_sendRawTransaction',
    reaches: true,
  },
  'after it has settled, before that is booked': {
    method: 'eth_getTransactionReceipt',
    reaches: true,
  },
} as const

for (const [when, { method, reaches }] of Object.entries(AFTER_THE_ANSWER))
  await t.test(`killed after the answer, ${when}: the kept answer is sold`, async (t) => {
    const scene = await startCrashScene(t)
    const [reached, killed] = [createSignal(), createSignal()]
    const hang = async () => {
      reached.give()
      await killed.given
    }
    if (reaches) scene.gate.beforeAnswers((methods) => (methods.includes(method) ? hang() : null))
    else scene.gate.decide((asked) => (asked === method ? hang().then(() => 'lost') : 'pass'))
    t.equal(await killDuringPurchase(scene, () => reached.given), null)
    t.match(await scene.state(), /^(?:due|submitted)\/withheld$/)
    t.equal(await scene.sellerCash(), 0, 'nothing is booked yet')
    t.equal(await scene.till.treasuryBalance(), reaches ? PRICE : 0n)
    await scene.verify()

    scene.gate.beforeAnswers(() => {})
    scene.gate.decide(() => 'pass')
    killed.give()
    const next = await scene.start()
    await eventually(async () => (await scene.state()) === 'settled/delivered', 'it settles')
    t.match(await scene.buy(next), { status: 200, body: { celsius: 21.5 } })
    await assertSoldOnce(t, scene, 1)
  })

await t.test('killed after the booking: the payer gets the answer that it missed', async (t) => {
  const scene = await startCrashScene(t)
  const booked = () =>
    eventually(async () => (await scene.state()) === 'settled/delivered', 'it is booked')
  await killDuringPurchase(scene, booked)
  const next = await scene.start()
  t.match(await scene.buy(next), { status: 200, body: { celsius: 21.5 } })
  await assertSoldOnce(t, scene, 1)
})
