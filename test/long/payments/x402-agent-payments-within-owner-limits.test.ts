import t from 'tap'
import {
  assertPaymentsBalance,
  encodeBase64Json,
  HIVE_TRENDING_PATH,
  postPaidCall,
  HIVE_TRENDING_PRICE_ATOMIC,
  paymentSignatureHeader,
  startTestStationWithPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'

t.test('an agent pays a call on a chain within the limits of its owner', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const payer = await till.createPayer(1_000_000n)
  const guest = await main.onboard(0)
  const { key } = guest
  const broke = await main.ask('POST', '/api/refuel', { key, json: { tool: 'hive_trending' } })
  t.match(broke, { status: 402, body: { fund_url: `http://gas.test/fund/${guest.id}` } })
  t.ok(broke.headers['payment-required'])
  const task = await main.ask('POST', '/api/task/start', {
    key,
    json: { name: 'x', budget_usdc: 0.005 },
  })
  const inTask = { 'x-task-id': task.body.task_id }
  const first = await pay2(main, key, {
    ...(await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)),
    ...inTask,
  })
  t.equal(first.status, 200, first.text)
  t.match(first.body._meta, { rail: 'eip3009', balance_usdc: 0 })
  const header = await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)
  const second = await pay2(main, key, { ...header, ...inTask })
  t.match(second, { status: 402, body: { code: 'task_budget_exceeded' } })
  t.equal(second.headers['payment-required'], undefined, 'no way around the limit')
  const broken = await pay2(main, key, {
    ...(await paymentSignatureHeader(payer, till, 1n)),
    ...inTask,
  })
  t.match(broken, { status: 402, body: { code: 'task_budget_exceeded' } }, 'the limit comes first')
  t.equal((await pay2(main, key, header)).status, 200, 'the payment was not used up')
  const view = await main.ask('GET', '/api/task/active', { key })
  t.match(view.body, { spent_usdc: 0.005 })
  await assertPaymentsBalance(t, main, till, 2n * HIVE_TRENDING_PRICE_ATOMIC)
})

const pay2 = (main: InProcessStation, key: string, headers: Record<string, string>) =>
  main.ask('POST', '/api/refuel', { key, json: { tool: 'hive_trending' }, headers })

t.test(
  'a top-up settles before it is credited, once, with the bonus of a first deposit',
  async (t) => {
    const { main, till } = await startTestStationWithPaymentChain(t)
    const payer = await till.createPayer(10_000_000n)
    const guest = await main.onboard(0)
    const topUp = (headers: Record<string, string> = {}) =>
      main.ask('POST', '/api/credits/topup', { key: guest.key, json: { amount_usdc: 2 }, headers })
    const asked = await topUp()
    t.equal(asked.status, 402)
    const header = await paymentSignatureHeader(payer, till, 2_000_000n)
    const answers = await Promise.all([topUp(header), topUp(header)])
    t.ok(
      answers.some(({ status }) => status === 200),
      answers.map(({ text }) => text).join('\n'),
    )
    const again = await topUp(header)
    t.match(again, { status: 200, body: { credited_usdc: 2, balance_usdc: 2.5 } })
    t.equal(again.headers['idempotency-replayed'], 'true')
    t.equal(await main.balance(guest), 2.5)
    const small = await main.ask('POST', '/api/credits/topup', {
      key: guest.key,
      json: { amount_usdc: 0.5 },
    })
    t.equal(small.status, 400)
    await assertPaymentsBalance(t, main, till, 2_000_000n)
  },
)

t.test(
  'without a chain no payment is offered, and a payment is rejected with that reason',
  async (t) => {
    const main = await startInProcessTestStation(t, { FREE_TIER_PER_DAY: '0' })
    const bare = await main.ask('POST', HIVE_TRENDING_PATH, { json: {} })
    t.match(bare, { status: 402, body: { code: 'payment_required' } })
    t.equal(bare.headers['payment-required'], undefined)
    const paid = await postPaidCall(main, {
      'payment-signature': encodeBase64Json({ x402Version: 2, payload: {} }),
    })
    t.match(paid, { status: 503, body: { code: 'rail_disabled' } })
    const guest = await main.onboard()
    const topUp = await main.ask('POST', '/api/credits/topup', { key: guest.key, json: {} })
    t.match(topUp, { status: 503, body: { code: 'rail_disabled' } })
  },
)
