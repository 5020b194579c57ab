import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { withInteropWorkspace } from '../../support/interop/interop-workspace.ts'
import { waitForFinalSettlement } from '../../support/payments/test-station-with-payment-chain.ts'

await withInteropWorkspace(t, 'agents/x402', ({ main, till, runClient }) => {
  for (const sdk of ['1', '2'])
    t.test(`MCP SDK ${sdk}: a keyless agent pays by version 2 of x402`, async (t) => {
      const key = generatePrivateKey()
      const payer = privateKeyToAccount(key).address
      await till.mintUsdc(payer, 5_000n)
      const client = { PAYER_KEY: key, MCP_SDK: sdk }
      const dear = await runClient('x402-agents', { ...client, MAX_PAYMENT: '4999' })
      t.match(dear, { paid: { isError: true, content: [{ text: /exceeds client cap/ }] } })
      t.equal(await till.base.balanceOf(payer), 5_000n)

      const seen = await runClient('x402-agents', { ...client, MAX_PAYMENT: '5000' })
      t.match(seen, { confirmed: [{ scheme: 'exact', network: 'eip155:8453', amount: '5000' }] })
      const { paid } = seen as { paid: { _meta: Record<string, Record<string, unknown>> } }
      t.match(paid, {
        structuredContent: Object,
        _meta: {
          'gas/call': { cost_usdc: 0.005, rail: 'x402' },
          'x402/payment-response': { success: true, payer: payer.toLowerCase() },
        },
      })
      const { settlement_id: settlement } = paid._meta['x402/payment-response'] ?? {}
      t.match(await waitForFinalSettlement(main, String(settlement)), { state: 'settled' })
      t.equal(await till.base.balanceOf(payer), 0n)
    })
  t.test('the books are right', () => main.verify())
})
