import t from 'tap'
import {
  assertPaymentsBalance,
  encodeBase64Json,
  HIVE_TRENDING_PRICE_ATOMIC,
  signAuthorizationPayingTreasury,
  startTestStationWithPaymentChain,
  waitForFinalSettlement,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  callMcpTool,
  MCP_TEST_PROTOCOL_VERSIONS,
  problemOfRefusedMcpCall,
} from '../../support/mcp/mcp-test-client.ts'

const TOOL = 'hive_trending'

interface PaymentRequired {
  readonly accepts: readonly object[]
}

t.test('a call over MCP is paid by x402', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const payer = await till.createPayer(10n * HIVE_TRENDING_PRICE_ATOMIC)
  const signed = () => signAuthorizationPayingTreasury(payer, till, HIVE_TRENDING_PRICE_ATOMIC)
  const plain = (value: unknown) =>
    JSON.parse(Buffer.from(encodeBase64Json(value), 'base64').toString()) as object

  t.test('an unpaid call answers the terms where each kind of client looks', async (t) => {
    for (const era of MCP_TEST_PROTOCOL_VERSIONS) {
      const { result, reply } = await callMcpTool(main, TOOL, {}, { era })
      t.equal(reply.status, 200)
      const terms = {
        x402Version: 2,
        error: /This call costs 0.005 USDC/,
        resource: { url: `mcp://tool/${TOOL}` },
        accepts: [
          { scheme: 'exact', network: 'eip155:8453', amount: '5000', payTo: till.treasury },
        ],
      }
      t.match(result, { isError: true, _meta: { 'x402/error': terms } })
      t.match(JSON.parse(result.content[0]?.text ?? ''), terms)
      if (era === '2026-07-28') t.match(result.structuredContent, terms)
      else t.notOk(result.structuredContent, 'its client checks it against the output schema')
      t.match(JSON.parse(result.content[1]?.text ?? ''), {
        code: 'payment_required',
        remedy: { action: 'onboard' },
        x402Version: 1,
        accepts: [{ network: 'base', maxAmountRequired: '5000' }],
      })
    }
  })

  t.test('a payment buys one call, whose answer it repeats', async (t) => {
    const unpaid = await callMcpTool(main, TOOL)
    const { accepts } = unpaid.result.structuredContent as unknown as PaymentRequired
    const payment = plain({ x402Version: 2, accepted: accepts[0], payload: await signed() })
    const meta = { 'x402/payment': payment }
    const paid = await callMcpTool(main, TOOL, {}, { meta })
    t.notOk(paid.result.isError, paid.reply.text)
    t.match(paid.result._meta['gas/call'], { cost_usdc: 0.005, rail: 'x402' })
    const answered = paid.result._meta['x402/payment-response'] ?? {}
    t.match(answered, { success: true, network: 'eip155:8453', payer: payer.address.toLowerCase() })
    const settled = await waitForFinalSettlement(main, String(answered['settlement_id']))
    t.match(settled, { state: 'settled', delivery: 'delivered' })

    const again = await callMcpTool(main, TOOL, {}, { meta, era: '2025-11-25' })
    t.strictSame(again.result.structuredContent, paid.result.structuredContent)
    t.match(again.result._meta, {
      'gas/replayed': true,
      'x402/payment-response': { transaction: settled['tx_hash'] },
    })
    const other = await callMcpTool(main, TOOL, { limit: 3 }, { meta })
    t.match(problemOfRefusedMcpCall(other), { code: 'payment_already_used' })
    const guest = await main.onboard()
    t.match(problemOfRefusedMcpCall(await callMcpTool(main, TOOL, {}, { meta, guest })), {
      code: 'payment_already_used',
    })
    const rest = await main.ask('POST', '/api/refuel', {
      json: { tool: TOOL },
      headers: { 'payment-signature': encodeBase64Json(payment) },
    })
    t.match(rest, { status: 409, body: { code: 'payment_already_used' } })
  })

  t.test('the same payment at once buys one call', async (t) => {
    const meta = { 'x402/payment': plain({ x402Version: 2, payload: await signed() }) }
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => callMcpTool(main, TOOL, {}, { meta })),
    )
    for (const answer of answers.filter(({ result }) => result.isError))
      t.match(problemOfRefusedMcpCall(answer)['code'], /^payment_(in_progress|already_used)$/)
    const ids = answers.flatMap(({ result }) => result._meta['gas/call']?.['call_id'] ?? [])
    t.equal(new Set(ids).size, 1)
  })

  t.test('payments of version 1, and those in base64, are read too', async (t) => {
    const v1 = { x402Version: 1, scheme: 'exact', network: 'base', payload: await signed() }
    const first = await callMcpTool(main, TOOL, {}, { meta: { 'x402/payment': plain(v1) } })
    t.match(first.result._meta['x402/payment-response'], { success: true, network: 'base' })
    const text = encodeBase64Json({ x402Version: 2, payload: await signed() })
    for (const meta of [{ 'x402/payment': text }, { 'x402.payment': text }]) {
      const { result } = await callMcpTool(main, TOOL, {}, { meta, era: '2025-11-25' })
      t.match(result._meta['x402/payment-response'], { success: true })
    }
  })

  t.test('a bad payment is refused, and buys nothing', async (t) => {
    for (const bad of [7, 'x', {}, { x402Version: 2, payload: {} }, { pad: 'x'.repeat(100_000) }]) {
      const answer = await callMcpTool(main, TOOL, {}, { meta: { 'x402/payment': bad } })
      t.match(
        problemOfRefusedMcpCall(answer),
        { code: 'payment_malformed' },
        JSON.stringify(bad).slice(0, 40),
      )
    }
    const { authorization, signature } = await signed()
    const less = { authorization: { ...authorization, value: 1n }, signature }
    const cheap = await callMcpTool(
      main,
      TOOL,
      {},
      { meta: { 'x402/payment': plain({ x402Version: 2, payload: less }) } },
    )
    t.match(cheap.result.structuredContent, { x402Version: 2, error: String, accepts: Array })
    t.match(problemOfRefusedMcpCall(cheap), { code: 'payment_invalid' })
  })

  t.test('the books are right', (t) =>
    assertPaymentsBalance(t, main, till, 4n * HIVE_TRENDING_PRICE_ATOMIC),
  )
})
