import t from 'tap'
import { sendJson } from '../../support/tools/test-tool-builder-server.ts'
import { startTestCommunityToolMarket } from '../../support/tools/test-community-tool-market.ts'
import {
  BASE_USDC_TOKEN,
  decodePaymentResponse,
  encodeBase64Json,
  paymentSignatureHeader,
  signAuthorizationPayingTreasury,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  encodeCancelAuthorization,
  sendTransactionFrom,
  signAuthorizationCancellation,
} from '../../support/payments/settler-scenario.ts'

/** Tools of other agents, bought by callers without a key: verified, called, settled, and only then answered. */

const PRICE = 10_000n
const ROME = { city: 'Rome' }

await t.test('a community tool is sold without a key', async (t) => {
  const till = await startTestPaymentChain(t)
  const market = await startTestCommunityToolMarket(t, {}, till.settings)
  const { builder, station: main, seller, cashOf, open } = market
  let mode: 'good' | 'bad' = 'good'
  let before: () => Promise<unknown> = async () => {}
  builder.on('/weather', (_, reply) => {
    const answer = () =>
      mode === 'good' ? sendJson(reply, { celsius: 21.5 }) : sendJson(reply, { no: 1 }, 500)
    void before().then(answer)
  })
  await open('weather-now', '/weather')
  const calls = () => builder.received.filter(({ path }) => path === '/weather').length
  const buy = (
    headers: Record<string, string>,
    path = '/api/tools/weather-now/invoke',
    json = {},
  ) => main.ask('POST', path, { json: { ...ROME, ...json }, headers })
  const payer = await till.createPayer(20n * PRICE)
  const sign = () => paymentSignatureHeader(payer, till, PRICE)
  const stateOf = async (): Promise<string> => {
    const [row] = await main.sql<{ state: string }[]>`
      select (state->'value'->>'money') || '/' || (state->'value'->>'delivery') as state
        from actors where kind = 'settlement' order by id = any(select id from settlements
          where created_at = (select max(created_at) from settlements)) desc limit 1`
    return row?.state ?? ''
  }

  const asked = await buy({})
  t.match(asked, { status: 402, body: { accepts: [{ network: 'base' }], price_usdc: 0.01 } })
  const { accepts } = decodePaymentResponse(asked.headers['payment-required']) as never as {
    accepts: unknown[]
  }
  t.match(accepts, [{ network: 'eip155:8453', amount: '10000' }])
  t.equal(calls(), 0)

  const header = await sign()
  const first = await buy(header)
  t.match(first, {
    status: 200,
    body: { celsius: 21.5, _meta: { cost_usdc: 0.01, rail: 'eip3009' } },
  })
  t.match(
    decodePaymentResponse(first.headers['payment-response'])['transaction'] ?? '',
    /^0x[0-9a-f]{64}$/,
  )
  t.equal(await till.treasuryBalance(), PRICE, 'settled before the answer')
  t.equal(await cashOf(seller), 0.006, '60 %')
  const again = await buy(header)
  t.equal(again.text, first.text, 'the same payment, the same answer')
  t.equal(calls(), 1)
  t.match(await buy(header, undefined, { city: 'Paris' }), { status: 409 })

  for (const [path, json] of [
    ['/api/refuel', { tool: 'weather-now' }],
    ['/api/t/weather-now', {}],
  ] as const)
    t.match(await buy(await sign(), path, json), { status: 200, body: { celsius: 21.5 } }, path)
  const shared = await sign()
  const all = await Promise.all(Array.from({ length: 8 }, () => buy(shared)))
  const answered = all.map(({ status }) => status)
  t.ok(
    answered.every((status) => [200, 409, 503].includes(status)),
    answered.join(),
  )
  t.match(await buy(shared), { status: 200 })
  t.equal(calls(), 4, 'one payment, one call of the builder')

  mode = 'bad'
  const kept = await sign()
  t.match(await buy(kept), { status: 502, body: { code: 'upstream_error', refunded: true } })
  t.equal(await stateOf(), 'released/waiting')
  mode = 'good'
  t.equal((await buy(kept)).status, 200, 'the failure did not use it up')
  t.equal(await till.treasuryBalance(), 5n * PRICE)
  t.equal(await cashOf(seller), 0.03)

  const cheat = await till.createPayer(2n * PRICE)
  const payload = await signAuthorizationPayingTreasury(cheat, till, PRICE)
  const taken = { 'payment-signature': encodeBase64Json({ x402Version: 2, payload }) }
  const { nonce } = payload.authorization
  const cancelled = await signAuthorizationCancellation(cheat, { nonce })
  const data = encodeCancelAuthorization(cheat.address, nonce, cancelled)
  before = () => sendTransactionFrom(till.base, cheat, { to: BASE_USDC_TOKEN.address, data })
  const lost = await buy(taken)
  before = async () => {}
  t.match(lost, { status: 402, body: { reason: 'settlement_failed', detail: /not released/ } })
  t.notMatch(lost.text, /21\.5/)
  t.match(await buy(taken), { status: 402 }, 'and buys no other answer')
  const retried = await buy(await paymentSignatureHeader(cheat, till, PRICE))
  t.match(retried, { status: 402, body: { reason: 'payer_blocked' } })
  t.equal(await cashOf(seller), 0.03, 'the builder is not paid')

  t.equal(await till.treasuryBalance(), 5n * PRICE)
  const [row] = await main.sql<{ sum: bigint }[]>`
    select sum(amount_micros)::bigint as sum from transfers
     where debit = 'world:base' and kind = 'settlement'`
  t.equal(row?.sum, 5n * PRICE, 'in the ledger')
  await main.verify()
})
