import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Mppx, tempo } from 'mppx/client'
import t from 'tap'
import { createClient, encodeFunctionData, http, parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { tempo as tempoChain } from 'viem/tempo/chains'
import { PERMIT2_ADDRESS } from '../../../chain/evm/permit2.ts'
import type { HexString } from '../../../chain/onchain-payment-types.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import {
  GasStation,
  PaymentHook,
  type PaymentNotMade,
  PaymentRequired,
  type PaymentOptions,
  type SignedSpend,
  type SolanaTransfer,
} from '../../../sdk/index.ts'
import { startLocalBsc, startLocalTempo } from '../../support/chain/local-chain.ts'
import {
  createSignedSolanaTransfer,
  SOLANA_FEE_PAYER,
  startTestFacilitator,
} from '../../support/chain/test-solana-facilitator.ts'
import { startConnectionCuttingProxy } from '../../support/http/connection-cutting-proxy.ts'
import {
  assertPaymentsBalance,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { sendTransactionFrom } from '../../support/payments/settler-scenario.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

const PATH_USD = '0x20c0000000000000000000000000000000000000'
/** The first account of every anvil: it has money on Tempo from the start. */
const tempoPayer = privateKeyToAccount(
  '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
)
const [till, tempoNode, bsc, facilitator] = await Promise.all([
  startTestPaymentChain(t),
  startLocalTempo(),
  startLocalBsc(),
  startTestFacilitator(t),
])
t.teardown(() => Promise.all([tempoNode.stop(), bsc.stop()]))
await bsc.fund(
  privateKeyToAccount(till.settings['SETTLER_PRIVATE_KEY'] as HexString).address,
  10n ** 18n,
)
const main = await startInProcessTestStation(t, {
  ...till.settings,
  RPC_URL_TEMPO: tempoNode.rpcUrl,
  MPP_CURRENCY: PATH_USD,
  RPC_URL_BSC: bsc.rpcUrl,
  X402_FACILITATOR_URL: facilitator.url,
  TREASURY_ADDRESS_SOLANA: '2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4',
})
const payer = await till.createPayer(1_000_000n)
const caps = { maxPerCallUsdc: 0.01, maxPerDayUsdc: 1 }
const quick = { retryDelayMs: 1 }
/** A connection for each request, so that a proxy can cut each of them. */
const alone: typeof fetch = (input, init) =>
  fetch(input, {
    ...init,
    headers: { ...(init?.headers as Record<string, string>), connection: 'close' },
  })
let spent = 0n

t.test('a 402 is paid by x402, and a cut answer to a payment is never paid again', async (t) => {
  const proxy = await startConnectionCuttingProxy(t, main.url)
  const payment = { ...caps, x402: payer }
  const gas = new GasStation({ url: proxy.url, payment, fetch: alone, ...quick })
  const unpaid = new GasStation({ url: main.url, ...quick })
  const refused = await unpaid.tools.hive_trending({}).catch((error: unknown) => error)
  t.ok(refused instanceof PaymentRequired)
  t.match((refused as PaymentRequired).offers, [
    { protocol: 'x402', network: 'eip155:8453', amount: '5000', payTo: till.treasury },
    { protocol: 'x402', network: 'eip155:56', amount: '5000000000000000' },
    { protocol: 'x402', network: PAYMENT_NETWORKS.solana.caip2, amount: '5000' },
    { protocol: 'mpp', network: 'eip155:4217', asset: PATH_USD, amount: '5000' },
  ])
  t.match((await unpaid.quote('hive_trending', {})).offers, [
    { protocol: 'x402', network: 'eip155:8453', amount: '5000', pay_to: till.treasury },
    { protocol: 'x402', network: 'eip155:56' },
    { protocol: 'x402', network: PAYMENT_NETWORKS.solana.caip2 },
    { protocol: 'mpp', network: 'eip155:4217', asset: PATH_USD, pay_to: till.treasury },
  ])
  // The 402 and the quote pass; the answer to the payment breaks off at each of these bytes.
  for (const cut of [0, 100, 700, 1_400]) {
    proxy.cutNext(Infinity, Infinity, cut, cut)
    const answer = await gas.tools.hive_trending({})
    t.match(answer._meta, { cost_usdc: 0.005, balance_usdc: null })
    spent += 5_000n
  }
  proxy.cutNext(Infinity, Infinity, 300)
  const events: string[] = []
  for await (const { event } of gas.stream('hive_trending', {})) events.push(event)
  spent += 5_000n
  t.strictSame(events, ['start', 'result'])
  t.equal(proxy.pendingCuts(), 0, 'every answer was cut')
  await assertPaymentsBalance(t, main, till, spent)
})

t.test('caps hold for parallel calls, and the day is kept by a store', async (t) => {
  let stored: readonly SignedSpend[] = []
  const store = {
    load: async () => stored,
    save: async (next: readonly SignedSpend[]) => void (stored = next),
  }
  const options: PaymentOptions = {
    x402: payer,
    maxPerCallUsdc: 0.005,
    maxPerDayUsdc: 0.015,
    store,
  }
  const gas = new GasStation({ url: main.url, payment: options, ...quick })
  const calls = Array.from({ length: 5 }, () =>
    gas.tools.hive_trending({}).then(
      () => 'paid',
      (error: unknown) => (error as PaymentNotMade).code,
    ),
  )
  const outcomes = (await Promise.all(calls)).toSorted()
  t.strictSame(outcomes, ['cap_per_day', 'cap_per_day', 'paid', 'paid', 'paid'])
  spent += 15_000n
  const restarted = new GasStation({ url: main.url, payment: options, ...quick })
  await t.rejects(restarted.tools.hive_trending({}), { code: 'cap_per_day' })
  stored = stored.map((spend) => ({ ...spend, at: spend.at - 86_400_001 }))
  const tomorrow = new GasStation({ url: main.url, payment: options, ...quick })
  t.equal((await tomorrow.tools.hive_trending({}))._meta.cost_usdc, 0.005)
  spent += 5_000n
  await t.rejects(tomorrow.call('agent_see', { url: 'https://example.com' }), {
    name: 'PaymentNotMade',
    code: 'cap_per_call',
    message: 'the call costs 0.03 USDC, and the hook pays at most 0.005 a call',
  })
  for (const wrong of [0, NaN, -1])
    t.throws(() => new PaymentHook({ x402: payer, maxPerCallUsdc: 1, maxPerDayUsdc: wrong }), {
      code: 'invalid_cap',
    })
  await assertPaymentsBalance(t, main, till, spent)
})

t.test('a 402 is paid by MPP with the client of its makers', async (t) => {
  const getClient = () =>
    createClient({ chain: tempoChain, transport: http(tempoNode.rpcUrl), pollingInterval: 50 })
  const mpp = Mppx.create({
    polyfill: false,
    methods: [tempo.charge({ account: tempoPayer, getClient })],
  })
  const before = await tempoNode.balanceOf(till.treasury)
  const assets = { 'eip155:4217': { asset: PATH_USD, decimals: 6 } }
  const proxy = await startConnectionCuttingProxy(t, main.url)
  const payment = { ...caps, mpp, assets }
  const gas = new GasStation({ url: proxy.url, payment, fetch: alone, ...quick })
  proxy.cutNext(Infinity, Infinity, 0)
  const answer = await gas.tools.hive_trending({})
  t.match(answer._meta, { rail: 'mpp', cost_usdc: 0.005 })
  t.equal((await tempoNode.balanceOf(till.treasury)) - before, 5_000n, 'paid once')
  const unknown = new GasStation({ url: main.url, payment: { ...caps, mpp }, ...quick })
  await t.rejects(unknown.tools.hive_trending({}), {
    code: 'offer_differs',
    message: /not the known asset/,
  })
})

/** Hides the header of version 2, as a station of version 1 would. */
const withVersion1: typeof fetch = async (input, init) => {
  const answer = await fetch(input, init)
  const headers = new Headers(answer.headers)
  headers.delete('payment-required')
  return new Response(answer.body, { status: answer.status, headers })
}

t.test('a 402 of version 1 is paid by version 1', async (t) => {
  const payment = { ...caps, x402: payer }
  const gas = new GasStation({ url: main.url, payment, fetch: withVersion1, ...quick })
  t.match((await gas.tools.hive_trending({}))._meta, { rail: 'x402', cost_usdc: 0.005 })
  spent += 5_000n
  await assertPaymentsBalance(t, main, till, spent)
})

t.test('a 402 is paid on BSC by Permit2, and on Solana by a signer of its own', async (t) => {
  const { asset } = PAYMENT_NETWORKS.bsc
  const rich = privateKeyToAccount(generatePrivateKey())
  await bsc.mint(rich.address, 5n * 10n ** 15n)
  const assets = { 'eip155:56': { asset, decimals: 18, transferMethod: 'permit2' } } as const
  const payOnBsc = { ...caps, x402: rich, assets }
  const gas = new GasStation({ url: main.url, payment: payOnBsc, ...quick })
  await t.rejects(gas.tools.hive_trending({}), { name: 'PaymentRefused', code: /permit2/ })
  const abi = parseAbi(['function approve(address spender, uint256 value) returns (bool)'])
  const data = encodeFunctionData({ abi, args: [PERMIT2_ADDRESS, 10n ** 18n] })
  await sendTransactionFrom(bsc, rich, { to: asset, data })
  t.match((await gas.tools.hive_trending({}))._meta, { rail: 'x402', cost_usdc: 0.005 })
  const treasury = () => bsc.balanceOf(till.treasury)
  await eventually(async () => (await treasury()) === 5n * 10n ** 15n, 'the money on BSC')

  const asked: SolanaTransfer[] = []
  const solana = {
    createTransaction: async (transfer: SolanaTransfer) => {
      asked.push(transfer)
      return createSignedSolanaTransfer()
    },
  }
  for (const more of [{}, { fetch: withVersion1 }]) {
    const payment = { ...caps, solana }
    const paying = new GasStation({ url: main.url, payment, ...quick, ...more })
    t.match((await paying.tools.hive_trending({}))._meta, { rail: 'x402', cost_usdc: 0.005 })
  }
  const { caip2: network, asset: mint } = PAYMENT_NETWORKS.solana
  t.match(asked[0], { network, asset: mint, amount: '5000', feePayer: SOLANA_FEE_PAYER })
  t.equal(facilitator.moved.size, 2)
  // An address of Solana in other letters is another one.
  const asset2 = { asset: mint.toLowerCase(), decimals: 6 }
  const other = { ...caps, solana, assets: { [network]: asset2 } }
  const wary = new GasStation({ url: main.url, payment: other, ...quick })
  await t.rejects(wary.tools.hive_trending({}), { message: /not the known asset/ })
  await main.verify()
})

const USDC = '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913'
const entry = {
  scheme: 'exact',
  network: 'eip155:8453',
  amount: '5000',
  asset: USDC,
  payTo: '0x00000000000000000000000000000000000000aa',
  maxTimeoutSeconds: 300,
  extra: { name: 'USD Coin', version: '2' },
}
const offer = {
  protocol: 'x402',
  network: entry.network,
  asset: USDC,
  pay_to: entry.payTo,
  amount: '5000',
}

/** A server that asks for payment for ever, as a hostile or broken station would. */
async function startGreedyServer(changed: object, quote: object, date?: string) {
  let payments = 0
  const server = createServer((request, reply) => {
    if (request.headers['payment-signature'] !== undefined) payments += 1
    if (date !== undefined) reply.setHeader('date', date)
    if (request.url === '/api/quote')
      return void reply.end(JSON.stringify({ price_usdc: 0.005, offers: [offer], ...quote }))
    const required = { x402Version: 2, resource: {}, accepts: [{ ...entry, ...changed }] }
    reply
      .writeHead(402, {
        'payment-required': Buffer.from(JSON.stringify(required)).toString('base64'),
      })
      .end(JSON.stringify({ code: 'payment_required', detail: 'pay again' }))
  })
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready))
  t.teardown(() => server.close().closeAllConnections())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, payments: () => payments }
}

t.test('only an offer that equals the quote is signed, and one payment is sent', async (t) => {
  let signatures = 0
  const x402 = {
    address: payer.address,
    signTypedData: async (data: never) => {
      signatures += 1
      return payer.signTypedData(data)
    },
  }
  const call = async (changed: object, quote: object = {}, date?: string, more: object = {}) => {
    const { url, payments } = await startGreedyServer(changed, quote, date)
    const gas = new GasStation({ url, payment: { ...caps, x402, ...more }, ...quick })
    const error: unknown = await gas.tools.hive_trending({}).catch((one: unknown) => one)
    return { error: error as PaymentNotMade, payments: payments() }
  }
  const other = '0x00000000000000000000000000000000000000bb'
  const cases: [what: string, message: RegExp, changed: object, quote?: object, more?: object][] = [
    ['payee', /another payee/, { payTo: other }],
    ['amount', /not the quoted price/, { amount: '6000' }],
    ['asset', /not the known asset/, { asset: other }],
    ['network', /no asset is known/, { network: 'eip155:1' }],
    ['domain', /domain of the asset/, { extra: { name: 'Other', version: '2' } }],
    ['quoted payee', /another payee/, {}, { offers: [{ ...offer, pay_to: other }] }],
    ['quoted amount', /another amount/, {}, { offers: [{ ...offer, amount: '1' }] }],
    ['quoted price', /not the quoted price/, {}, { price_usdc: 0.004 }],
    ['quoted asset', /another asset/, {}, { offers: [{ ...offer, asset: other }] }],
    ['no quoted offer', /not in the quote/, {}, { offers: [] }],
    ['pinned payee', /is not the payee/, {}, {}, { payee: other }],
  ]
  for (const [what, message, changed, quote, more] of cases) {
    const { error, payments } = await call(changed, quote, undefined, more)
    t.match(error, { name: 'PaymentNotMade', code: 'offer_differs', message }, what)
    t.equal(payments, 0)
  }
  const { error: malformed } = await call({ extra: null })
  t.match(malformed, { name: 'PaymentRequired', offers: [] }, 'left out')
  const { error: late } = await call({}, {}, new Date(Date.now() + 3_600_000).toUTCString())
  t.match(late, { code: 'clock_differs', message: /Set the clock first/ })
  t.equal(signatures, 0, 'nothing was signed')
  const loop = await call({})
  t.match(loop.error, { name: 'PaymentRefused', message: 'pay again' })
  t.equal(loop.payments, 1, 'a 402 for ever is paid once')
  t.equal(signatures, 1)
})
