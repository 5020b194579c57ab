import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { withInteropWorkspace } from '../../support/interop/interop-workspace.ts'
import { waitForFinalSettlement } from '../../support/payments/test-station-with-payment-chain.ts'

await withInteropWorkspace(t, 'x402 over MCP', ({ main, till, runClient }) => {
  t.test('a keyless agent pays by x402', async (t) => {
    for (const sdk of ['1', '2'])
      for (const version of ['1', '2']) {
        const key = generatePrivateKey()
        const payer = privateKeyToAccount(key).address
        await till.mintUsdc(payer, 5_000n)
        const env = { PAYER_KEY: key, MCP_SDK: sdk, X402_VERSION: version }
        const seen = await runClient('x402-over-mcp', env)
        const name = `MCP SDK ${sdk}, x402 version ${version}`
        t.match(seen, { payment: { x402Version: Number(version) } }, name)
        const { paid, repeated } = seen as Record<
          string,
          { _meta: Record<string, Record<string, unknown>> }
        >
        t.match(paid?._meta, {
          'gas/call': { cost_usdc: 0.005, rail: 'x402' },
          'x402/payment-response': { success: true, payer: payer.toLowerCase() },
        })
        t.strictSame(repeated?._meta['gas/call'], paid?._meta['gas/call'], 'the same call')
        const answered = paid?._meta['x402/payment-response'] ?? {}
        t.match(await waitForFinalSettlement(main, String(answered['settlement_id'])), {
          state: 'settled',
        })
        t.equal(await till.base.balanceOf(payer), 0n)
      }
    await main.verify()
  })
})
