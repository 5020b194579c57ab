import { createInterface } from 'node:readline'
import { x402Facilitator } from '@x402/core/facilitator'
import { decodePaymentSignatureHeader, encodePaymentResponseHeader } from '@x402/core/http'
import { x402ResourceServer } from '@x402/core/server'
import type { PaymentPayload, PaymentRequirements } from '@x402/core/types'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { registerExactEvmScheme } from '@x402/evm/exact/facilitator'
import { ExactEvmScheme } from '@x402/evm/exact/server'
import fastify from 'fastify'
import { createWalletClient, http, nonceManager, publicActions } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { base } from 'viem/chains'

/**
 * Baseline for the payment rail: a Fastify service on the official x402 packages with their
 * facilitator in the same process. It verifies, returns a constant response of the given size, and
 * settles afterwards; it stores nothing. The line `idle` on stdin prints the settled count once
 * nothing is in flight.
 */

const [, , rpcUrl = '', settlerKey = '', payTo = '', price = '', bytes = '0'] = process.argv
const NETWORK = 'eip155:8453'

const account = privateKeyToAccount(settlerKey as `0x${string}`, { nonceManager })
const client = createWalletClient({
  account,
  chain: { ...base, rpcUrls: { default: { http: [rpcUrl] } } },
  transport: http(rpcUrl),
  pollingInterval: 50,
}).extend(publicActions)

const signer = toFacilitatorEvmSigner({
  address: account.address,
  readContract: (call) => client.readContract(call as never),
  verifyTypedData: (data) => client.verifyTypedData(data as never),
  writeContract: (call) => client.writeContract(call as never),
  sendTransaction: (transaction) => client.sendTransaction(transaction as never),
  waitForTransactionReceipt: (wait) => client.waitForTransactionReceipt(wait),
  getCode: (place) => client.getCode(place),
})
const facilitator = registerExactEvmScheme(new x402Facilitator(), { signer, networks: NETWORK })
const x402 = new x402ResourceServer({
  verify: (payload, requirements) => facilitator.verify(payload, requirements),
  settle: (payload, requirements) => facilitator.settle(payload, requirements),
  getSupported: async () => facilitator.getSupported() as never,
}).register(NETWORK, new ExactEvmScheme())
await x402.initialize()
const accepts = await x402.buildPaymentRequirements({
  scheme: 'exact',
  network: NETWORK,
  payTo,
  price: `$${price}`,
  maxTimeoutSeconds: 300,
})

const settling = new Set<Promise<void>>()
const done = { settled: 0, failed: 0 }

function settleLater(payload: PaymentPayload, requirements: PaymentRequirements): void {
  const settlement = x402
    .settlePayment(payload, requirements)
    .then(({ success }) => void (done[success ? 'settled' : 'failed'] += 1))
    .catch(() => void (done.failed += 1))
    .finally(() => settling.delete(settlement))
  settling.add(settlement)
}

const answer = { entries: [], padding: '' }
answer.padding = '.'.repeat(Math.max(0, Number(bytes) - JSON.stringify(answer).length))

const app = fastify()
app.post('/api/t/hive-trending', async ({ headers }, reply) => {
  const header = headers['payment-signature']
  if (typeof header !== 'string') return reply.code(402).send({ accepts })
  const payload = decodePaymentSignatureHeader(header)
  const requirements = x402.findMatchingRequirements(accepts, payload)
  if (requirements === undefined) return reply.code(402).send({ accepts })
  const { isValid, invalidReason, payer } = await x402.verifyPayment(payload, requirements)
  if (!isValid) return reply.code(402).send({ accepts, error: invalidReason })
  settleLater(payload, requirements)
  const receipt = {
    success: true,
    transaction: '',
    network: NETWORK,
    ...(payer && { payer }),
  } as const
  reply.header('payment-response', encodePaymentResponseHeader(receipt))
  return answer
})

const address = await app.listen({ port: 0, host: '127.0.0.1' })
console.log(JSON.stringify({ port: Number(new URL(address).port), accepted: accepts[0] }))
for await (const line of createInterface(process.stdin)) {
  if (line !== 'idle') continue
  while (settling.size > 0) await Promise.all(settling)
  console.log(JSON.stringify(done))
}
await app.close()
