import t from 'tap'
import { MINUTE, createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { startRpcFaultProxy } from '../../support/chain/rpc-fault-proxy.ts'
import {
  waitForFinalSettlement,
  assertPaymentsBalance,
  HIVE_TRENDING_PATH,
  postPaidCall,
  HIVE_TRENDING_PRICE_ATOMIC,
  decodePaymentResponse,
  settlementIdOfReply,
  paymentSignatureHeader,
  startTestStationWithPaymentChain,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

t.test('a payment is recognised after its expiry', async (t) => {
  const clock = createDatabaseAdjustedClock()
  const till = await startTestPaymentChain(t)
  const main = await startInProcessTestStation(t, till.settings, { clock })
  const header = await paymentSignatureHeader(
    await till.createPayer(1_000_000n),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  const answer = await postPaidCall(main, header)
  t.equal(answer.status, 200)
  await waitForFinalSettlement(main, settlementIdOfReply(answer))
  clock.adjust(10 * MINUTE)
  const again = await postPaidCall(main, header)
  t.match(again, { status: 200, text: answer.text }, 'a lost answer is not charged twice')
  const fresh = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  t.match(await postPaidCall(main, fresh), { status: 402, body: { reason: /valid_before/ } })
})

t.test('with an exposure limit of zero a payment settles before its call runs', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t, { X402_EXPOSURE_USDC: '0' })
  const answer = await postPaidCall(
    main,
    await paymentSignatureHeader(
      await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
      till,
      HIVE_TRENDING_PRICE_ATOMIC,
    ),
  )
  t.equal(answer.status, 200, answer.text)
  const { transaction } = decodePaymentResponse(answer.headers['payment-response'])
  t.match(transaction, /^0x[0-9a-f]{64}$/)
  t.equal(await till.treasuryBalance(), HIVE_TRENDING_PRICE_ATOMIC, 'at once')
  await assertPaymentsBalance(t, main, till, HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('a call that fails after its payment has settled is credited, or runs again', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t, { X402_EXPOSURE_USDC: '0' })
  const call = (headers: Record<string, string>, key?: string) =>
    main.ask('POST', HIVE_TRENDING_PATH, { key, json: {}, headers })
  await main.sql`alter table hive_entries rename to elsewhere`
  const guest = await main.onboard(0)
  const credited = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  const first = await call(credited, guest.key)
  const { settlement_id: settlementId, settlement_url: url } = first.body
  t.match(first, {
    status: 500,
    body: { refunded: false, cost_usdc: 0, credited_usdc: 0.005, settlement_id: /^stl_/ },
  })
  t.match(await main.ask('GET', new URL(String(url)).pathname), {
    body: { id: settlementId, state: 'settled' },
  })
  t.equal(await main.balance(guest), 0.005, 'with a key: credits')
  t.match(await call(credited, guest.key), { status: 409, body: { code: 'payment_credited' } })

  const header = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  const kept = await call(header)
  t.match(
    kept,
    { status: 500, body: { refunded: false, settlement_id: /^stl_/ } },
    'and the reply reports it',
  )
  t.equal(await till.treasuryBalance(), 2n * HIVE_TRENDING_PRICE_ATOMIC)
  t.equal((await call(header)).status, 500, 'without a key the same request may run again')
  await main.sql`alter table elsewhere rename to hive_entries`
  const last = await call(header)
  t.equal(last.status, 200, last.text)
  t.equal((await call(header)).text, last.text)
  await assertPaymentsBalance(t, main, till, 2n * HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('a failed call costs its payer nothing, and the payment can be used again', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const fails = (headers: Record<string, string>) =>
    main.ask('POST', '/api/t/price-feed', { json: { query: 'BTC' }, headers })
  const price = BigInt(Math.round(Number((await fails({})).body['price_usdc']) * 1e6))
  const payer = await till.createPayer(price)
  const header = await paymentSignatureHeader(payer, till, price)
  t.match(await fails(header), { status: 503, body: { code: 'price_unavailable', refunded: true } })
  t.match(await fails(header), { status: 503, body: { code: 'price_unavailable' } }, 'not used up')
  await assertPaymentsBalance(t, main, till, 0n)
})

t.test('a batch without a key is bought by one payment in full, or not at all', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const good = [{ tool: 'hive_trending' }, { tool: 'hive_trending', limit: 2 }]
  const batch = (calls: object[], headers: Record<string, string> = {}) =>
    main.ask('POST', '/api/pipeline', { json: { calls }, headers })
  const asked = await batch(good)
  t.match(asked, { status: 402, body: { price_usdc: 0.01 } })
  const payer = await till.createPayer(1_000_000n)
  const header = await paymentSignatureHeader(payer, till, 10_000n)
  await main.sql`alter table hive_entries rename to elsewhere`
  const failed = await batch(good, header)
  t.match(failed.body, { ok: false, succeeded: 0, total_cost_usdc: 0, results: [{ result: null }] })
  await main.sql`alter table elsewhere rename to hive_entries`
  const answer = await batch(good, header)
  t.match(answer.body, { ok: true, succeeded: 2, total_cost_usdc: 0.01 }, 'it was not used up')
  t.equal((await batch(good, header)).text, answer.text)
  const mixed = [{ tool: 'hive_trending' }, { tool: 'x402_parse', input: 'x' }]
  const partly = await batch(
    mixed,
    await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC),
  )
  t.match(
    partly.body,
    { ok: false, succeeded: 1, total_cost_usdc: 0.005 },
    'the free tier is apart',
  )
  await assertPaymentsBalance(t, main, till, 15_000n)
})

t.test(
  'with a key the calls of a batch are paid from credits, with separate replies',
  async (t) => {
    const { main, till } = await startTestStationWithPaymentChain(t)
    const guest = await main.onboard()
    const header = await paymentSignatureHeader(
      await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
      till,
      HIVE_TRENDING_PRICE_ATOMIC,
    )
    const calls = [{ tool: 'hive_trending' }, { tool: 'hive_trending', limit: 1 }]
    const { body } = await main.ask('POST', '/api/pipeline', {
      key: guest.key,
      json: { calls },
      headers: header,
    })
    t.match(body, {
      ok: true,
      results: calls.map(() => ({ result: { _meta: { rail: 'credits' } } })),
    })
    t.equal((await postPaidCall(main, header)).status, 200, 'the payment was not touched')
    await assertPaymentsBalance(t, main, till, HIVE_TRENDING_PRICE_ATOMIC)
  },
)

t.test('a sweep signed by an agent wallet is not a payment', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const guest = await main.onboard()
  const payer = await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC)
  await main.sql`update wallets set address = ${payer.address} where agent_id = ${guest.id}`
  const answer = await postPaidCall(
    main,
    await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC),
  )
  t.match(answer, { status: 402, body: { reason: 'payer_is_custodial' } })
  await assertPaymentsBalance(t, main, till, 0n)
})

t.test(
  'two payments under one Idempotency-Key are two purchases of a caller without an API key',
  async (t) => {
    const { main, till } = await startTestStationWithPaymentChain(t)
    const payer = await till.createPayer(2n * HIVE_TRENDING_PRICE_ATOMIC)
    const key = { 'idempotency-key': 'again' }
    const first = await postPaidCall(main, {
      ...key,
      ...(await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)),
    })
    const second = await postPaidCall(main, {
      ...key,
      ...(await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)),
    })
    t.strictSame([first.status, second.status], [200, 200], second.text)
    await assertPaymentsBalance(t, main, till, 2n * HIVE_TRENDING_PRICE_ATOMIC)
  },
)

t.test('a stream is paid like a call', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const stream = (headers: Record<string, string>) =>
    main.ask('POST', '/api/refuel/stream', { json: { tool: 'hive_trending' }, headers })
  t.equal((await stream({})).status, 402)
  const header = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  const answer = await stream(header)
  t.strictSame(
    answer.frames.map(({ event }) => event),
    ['start', 'progress', 'progress', 'result', 'done'],
  )
  const again = await stream(header)
  const result = answer.frames[3]?.data
  const { payment_response: told, ..._meta } = { ...result?._meta } as Record<string, string>
  t.strictSame(again.frames[1]?.data, { ...result, _meta })
  t.equal(settlementIdOfReply(again), decodePaymentResponse(told)['settlement_id'])
  const calls = [{ tool: 'hive_trending' }]
  const bought = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  const asked = { json: { tool: 'pipeline', calls }, headers: bought }
  const first = await main.ask('POST', '/api/refuel/stream', asked)
  const second = await main.ask('POST', '/api/refuel/stream', asked)
  for (const { frames, headers } of [first, second]) {
    const events = frames.map(({ event }) => event)
    t.strictSame(events, ['start', 'result', 'done'], 'a batch is bought whole')
    t.match(decodePaymentResponse(headers['payment-response']), { success: true })
  }
  t.strictSame(second.frames[1]?.data, first.frames[1]?.data)
  await assertPaymentsBalance(t, main, till, 2n * HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('a chain that does not answer is not offered, and nothing is claimed', async (t) => {
  const till = await startTestPaymentChain(t)
  const gate = await startRpcFaultProxy(t, till.base.rpcUrl)
  const settings = { ...till.settings, RPC_URL_BASE: gate.url }
  const main = await startInProcessTestStation(t, settings)
  const header = await paymentSignatureHeader(
    await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
    till,
    HIVE_TRENDING_PRICE_ATOMIC,
  )
  gate.decide(() => 'lost')
  t.match(await postPaidCall(main, header), { status: 503, body: { code: 'rail_unavailable' } })
  const [rows] = await main.sql<{ n: number }[]>`select count(*)::int as n from settlements`
  t.equal(rows?.n, 0)
  const blind = await startInProcessTestStation(t, settings)
  const unoffered = await blind.ask('POST', HIVE_TRENDING_PATH, { json: {} })
  t.equal(unoffered.status, 402)
  t.equal(unoffered.headers['payment-required'], undefined)
  gate.decide(() => 'pass')
  t.equal((await postPaidCall(main, header)).status, 200, 'the same payment is good')
  await assertPaymentsBalance(t, main, till, HIVE_TRENDING_PRICE_ATOMIC)
})
