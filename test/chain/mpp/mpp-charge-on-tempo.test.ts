import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { Receipt } from 'mppx'
import { Mppx, tempo } from 'mppx/client'
import t, { type Test } from 'tap'
import { createClient, http } from 'viem'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { tempo as tempoChain } from 'viem/tempo/chains'
import { createEvmClient, isRpcUnavailable } from '../../../chain/evm/evm-client.ts'
import {
  findMppChargeReceipt,
  broadcastMppCharge,
  simulateMppCharge,
} from '../../../chain/mpp/mpp-charge.ts'
import { mppChallengeHeader } from '../../../chain/mpp/mpp-challenge.ts'
import {
  PaymentProblem,
  type HexString,
  type NormalizedPayment,
} from '../../../chain/onchain-payment-types.ts'
import { paymentResponseHeaders } from '../../../chain/x402/payment-response-headers-and-402-bodies.ts'
import { startLocalTempo } from '../../support/chain/local-chain.ts'
import {
  TEMPO_DEV_ACCOUNT,
  createTempoChargeCredential,
  readTempoChargePayment,
} from '../../support/payments/sample-tempo-charges.ts'
import {
  samplePaymentOffer,
  ALL_TEST_RAILS,
  readPaymentOfHeaders,
  OFFER_TREASURY,
  OFFER_URL,
} from '../../support/payments/sample-payment-offer.ts'

/** A Tempo node, and a server that takes its money by our codec. */
async function tempoShop(t: Test, price = 0.03) {
  const chain = await startLocalTempo()
  t.teardown(() => chain.stop())
  const client = createEvmClient({ rpcUrl: chain.rpcUrl, chainId: 4217 })
  const asked = samplePaymentOffer(ALL_TEST_RAILS, price)
  const paid: NormalizedPayment[] = []
  const serve = async (input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, init)
    const body = new Uint8Array(await request.arrayBuffer())
    const headers = Object.fromEntries(request.headers)
    const payment = await readPaymentOfHeaders(headers, { offer: asked, now: Date.now(), body })
    if (payment === null) {
      const challenge = mppChallengeHeader(asked, { body, now: Date.now() }) ?? ''
      const others = `Bearer realm="gas.example", ${challenge}`
      return Response.json({}, { status: 402, headers: { 'WWW-Authenticate': others } })
    }
    paid.push(payment)
    await simulateMppCharge(client, rawOf(payment))
    const { status } = await broadcastMppCharge(client, rawOf(payment))
    const settlement = {
      success: status === 'success',
      transaction: payment.proof.kind === 'mpp' ? payment.proof.hash : '',
      settlementId: 'id',
      settlementUrl: 'https://gas.example/s',
      at: Date.now(),
    }
    return Response.json({ status }, { headers: paymentResponseHeaders(payment, settlement) })
  }
  return { chain, client, paid, serve }
}

const rawOf = ({ proof }: NormalizedPayment): HexString => {
  if (proof.kind !== 'mpp') throw new Error('it is no charge')
  return proof.raw
}

t.test('the unmodified client of MPP pays our challenge on Tempo', async (t) => {
  const { chain, client, paid, serve } = await tempoShop(t)
  const getClient = () =>
    createClient({ chain: tempoChain, transport: http(chain.rpcUrl), pollingInterval: 50 })
  const { fetch } = Mppx.create({
    polyfill: false,
    fetch: serve as typeof globalThis.fetch,
    methods: [tempo.charge({ account: TEMPO_DEV_ACCOUNT, getClient })],
  })
  const before = await chain.balanceOf(OFFER_TREASURY.toLowerCase())
  const answer = await fetch(OFFER_URL, { method: 'POST', body: '{"url":"https://example.com"}' })
  t.strictSame(await answer.json(), { status: 'success' })
  t.equal((await chain.balanceOf(OFFER_TREASURY.toLowerCase())) - before, 30_000n)
  const [payment] = paid
  if (payment?.proof.kind !== 'mpp') throw new Error('no MPP payment')
  const { hash } = payment.proof
  t.match(Receipt.fromResponse(answer), { method: 'tempo', status: 'success', reference: hash })

  const again = await broadcastMppCharge(client, rawOf(payment))
  t.match(again, { status: 'success' }, 'sent again it is the same charge')
  t.strictSame(await findMppChargeReceipt(client, hash), again)
  t.equal((await chain.balanceOf(OFFER_TREASURY.toLowerCase())) - before, 30_000n)
})

t.test('a charge whose reply was lost is found by its hash', async (t) => {
  const { chain } = await tempoShop(t)
  const lossy = createServer((request, response) => {
    void text(request).then(async (body) => {
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(chain.rpcUrl, { method: 'POST', headers, body })
      if (body.includes('eth_sendRawTransactionSync')) response.destroy()
      else response.end(await answer.text())
    })
  }).listen(0, '127.0.0.1')
  t.teardown(() => lossy.close())
  await once(lossy, 'listening')
  const { port } = lossy.address() as AddressInfo
  const client = createEvmClient({ rpcUrl: `http://127.0.0.1:${port}`, chainId: 4217 })
  const now = Date.now()
  const payment = await readTempoChargePayment(
    (await createTempoChargeCredential({}, { now })).text,
    { now },
  )
  if (payment === null) throw new Error('it can be read')
  t.match(await broadcastMppCharge(client, rawOf(payment)), { status: 'success' })
})

t.test('a charge without funds is rejected before sending and fails after it', async (t) => {
  const { chain, client } = await tempoShop(t)
  const now = Date.now()
  const chargeOf = async (account: PrivateKeyAccount) => {
    const { text } = await createTempoChargeCredential({ account }, { now })
    const payment = await readTempoChargePayment(text, { now })
    return payment === null ? '0x' : rawOf(payment)
  }
  const poor = privateKeyToAccount(generatePrivateKey())
  const refused = { name: 'PaymentProblem', status: 402, reason: 'verification-failed' }
  await simulateMppCharge(client, await chargeOf(TEMPO_DEV_ACCOUNT))
  await t.rejects(simulateMppCharge(client, await chargeOf(poor)), refused)
  t.strictSame(await broadcastMppCharge(client, await chargeOf(poor)), { status: 'unknown' })

  // enough for the fee, not for the price
  await chain.mint(poor.address, 25_000n)
  const before = await chain.balanceOf(OFFER_TREASURY.toLowerCase())
  await t.rejects(simulateMppCharge(client, await chargeOf(poor)), refused)
  t.match(await broadcastMppCharge(client, await chargeOf(poor)), { status: 'reverted' })
  t.equal(await chain.balanceOf(OFFER_TREASURY.toLowerCase()), before)
})

t.test('an expired charge is rejected, which is not a node failure', async (t) => {
  const { chain, client } = await tempoShop(t)
  const now = Date.now()
  const payment = await readTempoChargePayment(
    (await createTempoChargeCredential({}, { now })).text,
    { now },
  )
  if (payment === null) throw new Error('it can be read')
  await chain.client.increaseTime({ seconds: 3_600 })
  await chain.mine(1)
  const refused = { name: 'PaymentProblem', status: 402, reason: 'verification-failed' }
  await t.rejects(simulateMppCharge(client, rawOf(payment)), refused)
})

t.test('a node that does not answer leaves the outcome unknown', async (t) => {
  const { text } = await createTempoChargeCredential()
  const payment = await readTempoChargePayment(text)
  if (payment === null) throw new Error('it can be read')
  const client = createEvmClient({ rpcUrl: 'http://127.0.0.1:9', chainId: 4217 })
  const error = await simulateMppCharge(client, rawOf(payment)).catch((thrown: unknown) => thrown)
  t.notOk(error instanceof PaymentProblem)
  t.equal(isRpcUnavailable(error), true)
  t.strictSame(await broadcastMppCharge(client, rawOf(payment)), { status: 'unknown' })
})
