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
import { evmClient, isRpcDown } from '../../chain/evm.ts'
import { chargeReceipt, sendCharge, simulateCharge } from '../../chain/mpp/charge.ts'
import { challengeHeader } from '../../chain/mpp/challenge.ts'
import { PaymentProblem, type Hex, type Payment } from '../../chain/payment.ts'
import { readPayment } from '../../chain/x402/intake.ts'
import { responseHeaders } from '../../chain/x402/render.ts'
import { startTempo } from '../../scripts/chain/local-chain.ts'
import { account, credentialFor, read } from './charges.ts'
import { offer, RAILS, TREASURY, URL_ } from './offers.ts'

/** A Tempo node, and a server that takes its money by our codec. */
async function tempoShop(t: Test, price = 0.03) {
  const chain = await startTempo()
  t.teardown(() => chain.stop())
  const client = evmClient({ rpcUrl: chain.rpcUrl, chainId: 4217 })
  const asked = offer(RAILS, price)
  const paid: Payment[] = []
  const serve = async (input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, init)
    const body = new Uint8Array(await request.arrayBuffer())
    const headers = Object.fromEntries(request.headers)
    const payment = await readPayment(headers, asked, RAILS, Date.now(), body)
    if (payment === null) {
      const challenge = challengeHeader(asked, { body, now: Date.now() }) ?? ''
      const others = `Bearer realm="gas.example", ${challenge}`
      return Response.json({}, { status: 402, headers: { 'WWW-Authenticate': others } })
    }
    paid.push(payment)
    await simulateCharge(client, rawOf(payment))
    const { status } = await sendCharge(client, rawOf(payment))
    const settlement = {
      success: status === 'success',
      transaction: payment.proof.kind === 'mpp' ? payment.proof.hash : '',
      settlementId: 'id',
      settlementUrl: 'https://gas.example/s',
      at: Date.now(),
    }
    return Response.json({ status }, { headers: responseHeaders(payment, settlement) })
  }
  return { chain, client, paid, serve }
}

const rawOf = ({ proof }: Payment): Hex => {
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
    methods: [tempo.charge({ account, getClient })],
  })
  const before = await chain.balanceOf(TREASURY.toLowerCase())
  const answer = await fetch(URL_, { method: 'POST', body: '{"url":"https://example.com"}' })
  t.strictSame(await answer.json(), { status: 'success' })
  t.equal((await chain.balanceOf(TREASURY.toLowerCase())) - before, 30_000n)
  const [payment] = paid
  if (payment?.proof.kind !== 'mpp') throw new Error('nobody paid')
  const { hash } = payment.proof
  t.match(Receipt.fromResponse(answer), { method: 'tempo', status: 'success', reference: hash })

  const again = await sendCharge(client, rawOf(payment))
  t.match(again, { status: 'success' }, 'sent again it is the same charge')
  t.strictSame(await chargeReceipt(client, hash), again)
  t.equal((await chain.balanceOf(TREASURY.toLowerCase())) - before, 30_000n)
})

t.test('a charge whose answer got lost is found by its hash', async (t) => {
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
  const client = evmClient({ rpcUrl: `http://127.0.0.1:${port}`, chainId: 4217 })
  const now = Date.now()
  const payment = await read((await credentialFor({}, { now })).text, { now })
  if (payment === null) throw new Error('it can be read')
  t.match(await sendCharge(client, rawOf(payment)), { status: 'success' })
})

t.test('a charge without the money is refused before, and fails after', async (t) => {
  const { chain, client } = await tempoShop(t)
  const now = Date.now()
  const chargeOf = async (account: PrivateKeyAccount) => {
    const { text } = await credentialFor({ account }, { now })
    const payment = await read(text, { now })
    return payment === null ? '0x' : rawOf(payment)
  }
  const poor = privateKeyToAccount(generatePrivateKey())
  const refused = { name: 'PaymentProblem', status: 402, reason: 'verification-failed' }
  await simulateCharge(client, await chargeOf(account))
  await t.rejects(simulateCharge(client, await chargeOf(poor)), refused)
  t.strictSame(await sendCharge(client, await chargeOf(poor)), { status: 'unknown' })

  // enough for the fee, not for the price
  await chain.mint(poor.address, 25_000n)
  const before = await chain.balanceOf(TREASURY.toLowerCase())
  await t.rejects(simulateCharge(client, await chargeOf(poor)), refused)
  t.match(await sendCharge(client, await chargeOf(poor)), { status: 'reverted' })
  t.equal(await chain.balanceOf(TREASURY.toLowerCase()), before)
})

t.test('a charge whose time is over is refused, which is no trouble of the node', async (t) => {
  const { chain, client } = await tempoShop(t)
  const now = Date.now()
  const payment = await read((await credentialFor({}, { now })).text, { now })
  if (payment === null) throw new Error('it can be read')
  await chain.client.increaseTime({ seconds: 3_600 })
  await chain.mine(1)
  const refused = { name: 'PaymentProblem', status: 402, reason: 'verification-failed' }
  await t.rejects(simulateCharge(client, rawOf(payment)), refused)
})

t.test('a node that does not answer makes nothing fail, and nothing succeed', async (t) => {
  const { text } = await credentialFor()
  const payment = await read(text)
  if (payment === null) throw new Error('it can be read')
  const client = evmClient({ rpcUrl: 'http://127.0.0.1:9', chainId: 4217 })
  const error = await simulateCharge(client, rawOf(payment)).catch((thrown: unknown) => thrown)
  t.notOk(error instanceof PaymentProblem)
  t.equal(isRpcDown(error), true)
  t.strictSame(await sendCharge(client, rawOf(payment)), { status: 'unknown' })
})
