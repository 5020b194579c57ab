import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { withInteropWorkspace } from '../../support/interop/interop-workspace.ts'
import { waitForFinalSettlement } from '../../support/payments/test-station-with-payment-chain.ts'

await withInteropWorkspace(t, 'x402-mcp', ({ main, till, runClient }) => {
  t.test('an agent of the AI SDK pays by version 1 of x402', async (t) => {
    const key = generatePrivateKey()
    const payer = privateKeyToAccount(key).address
    await till.mintUsdc(payer, 5_000n)
    const seen = await runClient('x402-mcp', { PAYER_KEY: key, MAX_PAYMENT: '5000' })
    const { tools, outputs, errors } = seen as Record<string, unknown[]>
    t.ok(tools?.includes('generatePaymentAuthorization'))
    t.strictSame(errors, [])
    t.match(outputs?.[0], { isError: true, content: [{ text: /"x402Version":2/ }] })
    const paid = outputs?.at(-1) as { _meta: Record<string, Record<string, unknown>> }
    t.match(paid, {
      structuredContent: Object,
      _meta: {
        'gas/call': { cost_usdc: 0.005, rail: 'x402' },
        'x402/payment-response': { success: true, network: 'base', payer: payer.toLowerCase() },
      },
    })
    const { settlement_id: settlement } = paid._meta['x402/payment-response'] ?? {}
    t.match(await waitForFinalSettlement(main, String(settlement)), { state: 'settled' })
    t.equal(await till.base.balanceOf(payer), 0n)
  })

  t.test('its own limit refuses a dearer call, and nothing is paid', async (t) => {
    const key = generatePrivateKey()
    const payer = privateKeyToAccount(key).address
    await till.mintUsdc(payer, 5_000n)
    const seen = await runClient('x402-mcp', { PAYER_KEY: key, MAX_PAYMENT: '4999' })
    t.match(seen, { errors: [/exceed/] })
    t.equal(await till.base.balanceOf(payer), 5_000n)
    await main.verify()
  })
})
