import t from 'tap'
import { pollUntilTrue } from '../../support/payments/settler-scenario.ts'
import type { TestReply } from '../../support/http/test-http-client.ts'
import { startRpcFaultProxy, type RpcFault } from '../../support/chain/rpc-fault-proxy.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  waitForFinalSettlement,
  assertPaymentsBalance,
  HIVE_TRENDING_PATH,
  HIVE_TRENDING_PRICE_ATOMIC,
  settlementIdOfReply,
  paymentSignatureHeader,
  startTestStationWithPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'

const { main, till } = await startTestStationWithPaymentChain(t)
const gate = await startRpcFaultProxy(t, till.base.rpcUrl)
const slow = await startInProcessTestStation(
  t,
  { ...till.settings, RPC_URL_BASE: gate.url },
  { database: main.database },
)
const payer = await till.createPayer(10_000_000n)
let spent = 0n

/** A request on each node; the chain answers the second one when the first has its reply. */
async function behind(
  first: () => Promise<TestReply>,
  second: () => Promise<TestReply>,
): Promise<[TestReply, TestReply]> {
  let before: Promise<TestReply> | undefined
  gate.decide(async (method): Promise<RpcFault> => {
    if (method === 'eth_call') before ??= first()
    await before
    return 'pass'
  })
  const after = await second()
  gate.decide(() => 'pass')
  return [await (before as Promise<TestReply>), after]
}

t.test('of two requests with one payment the slower one gets the answer too', async (t) => {
  const calls = [{ tool: 'hive_trending' }, { tool: 'hive_trending' }]
  for (const [path, json, price] of [
    [HIVE_TRENDING_PATH, {}, HIVE_TRENDING_PRICE_ATOMIC],
    ['/api/pipeline', { calls }, 2n * HIVE_TRENDING_PRICE_ATOMIC],
  ] as const) {
    const headers = await paymentSignatureHeader(payer, till, price)
    spent += price
    const [first, second] = await behind(
      async () => {
        const answer = await main.ask('POST', path, { json, headers })
        await waitForFinalSettlement(main, settlementIdOfReply(answer))
        return answer
      },
      () => slow.ask('POST', path, { json, headers }),
    )
    t.equal(first.status, 200)
    t.match(second, { status: 200, headers: { 'idempotency-replayed': 'true' } }, path)
    t.equal(second.text, first.text)
  }
})

t.test('a concurrent second purchase with one payment reports the first one', async (t) => {
  const her = await main.onboard()
  const headers = await paymentSignatureHeader(payer, till, 2_000_000n)
  spent += 2_000_000n
  const asked = { key: her.key, json: { amount_usdc: 2 }, headers }
  const [first, second] = await behind(
    () => main.ask('POST', '/api/credits/topup', asked),
    () => slow.ask('POST', '/api/credits/topup', asked),
  )
  t.match(first, { status: 200, headers: { 'idempotency-replayed': undefined } })
  t.match(second, { status: 200, headers: { 'idempotency-replayed': 'true' } })
  t.equal(second.body['settlement_id'], first.body['settlement_id'])
  t.equal(await slow.balance(her), 0.5 + 2 + 0.5, 'with the bonus, once')
})

t.test('a payment that is sent twice trips no fuse', async (t) => {
  const her = await main.onboard()
  const json = { agent_name: 'racer', fuse: { per_day_usdc: 0.005 } }
  const { body } = await main.ask('POST', '/api/backpack/create', { key: her.key, json })
  const id = String(body['backpack_id'])
  const headers = {
    ...(await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)),
    'x-backpack-id': id,
  }
  spent += HIVE_TRENDING_PRICE_ATOMIC
  const asked = { key: her.key, json: {}, headers }
  let go = () => {}
  const held = new Promise<RpcFault>((resolve) => (go = () => resolve('pass')))
  gate.decide(() => held)
  const first = slow.ask('POST', HIVE_TRENDING_PATH, asked)
  await pollUntilTrue(async () => {
    const [row] = await main.sql<
      { held: boolean }[]
    >`select state->'context'->'holds' <> '{}' as held
      from actors where kind = 'agent' and id = ${her.id}`
    return row?.held === true
  })
  t.match(await main.ask('POST', HIVE_TRENDING_PATH, asked), {
    status: 409,
    headers: { 'retry-after': '1' },
    body: { code: 'payment_in_progress', settlement_id: /^stl_/ },
  })
  gate.decide(() => 'pass')
  go()
  const { status, text } = await first
  t.equal(status, 200)
  t.equal((await main.ask('POST', HIVE_TRENDING_PATH, asked)).text, text)
  const told = await main.ask('GET', `/api/backpack/${id}/notifications`, { key: her.key })
  const types = (told.body['notifications'] as { type: string }[]).map(({ type }) => type)
  t.strictSame(types.sort(), ['backpack.created', 'tool_call'])
})

t.test('gas verify finds no difference afterwards', (t) =>
  assertPaymentsBalance(t, main, till, spent),
)
