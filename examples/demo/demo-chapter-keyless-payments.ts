import { randomBytes } from 'node:crypto'
import { registerExactEvmScheme } from '@x402/evm/exact/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { Receipt } from 'mppx'
import { Mppx, tempo } from 'mppx/client'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { PAYMENT_NETWORKS } from '../../chain/payment-networks.ts'
import { signEip3009Authorization } from '../../chain/evm/eip3009.ts'
import { roundUsdc, type DemoContext } from './demo-context.ts'
import { pollUntilExpected, type DemoReply } from './demo-api-client.ts'
import {
  shortenHex,
  printChapterTitle,
  assertDemoExpectation,
  printDemoOutputLine,
} from './demo-console-output.ts'
import type { LocalChain } from '../../test/support/chain/local-chain.ts'

/** Demo chapter: a wallet without an account pays per call. */

const PAID_CALL = 'POST /api/t/hive-trending'
const PAID_CALL_ATOMIC = 5_000n
const PAYER_USDC_ATOMIC = 10_000_000n

interface PaymentRequiredReply {
  readonly code: string
  readonly price_usdc: number
  readonly accepts: readonly unknown[]
}

/** Pays calls from a wallet without an account. */
export async function runDemoKeylessPaymentChapter(demo: DemoContext): Promise<void> {
  printChapterTitle('A wallet pays per call, without an API key')
  const { base, tempo: chain } = demo.environment
  const stranger = privateKeyToAccount(generatePrivateKey())
  await Promise.all([
    base.mint(stranger.address, PAYER_USDC_ATOMIC),
    chain.mint(stranger.address, PAYER_USDC_ATOMIC),
  ])
  const { headers, body } = await demo.request<PaymentRequiredReply>(402, PAID_CALL, { json: {} })
  assertDemoExpectation(headers.has('payment-required'), 'a 402 offers x402', [...headers.keys()])
  assertDemoExpectation(headers.has('www-authenticate'), 'a 402 offers MPP', [...headers.keys()])
  assertDemoExpectation(
    body.price_usdc === Number(PAID_CALL_ATOMIC) / 1e6,
    'a 402 names the price',
    body,
  )
  const offered = 'one answer offers x402 v2, x402 v1 and MPP'
  printDemoOutputLine({
    call: PAID_CALL,
    status: 402,
    result: offered,
    cost: 0,
    remaining: await formatWalletBalance(base, stranger),
  })
  await payBySignatureHeader(demo, stranger)
  await payByX402Client(demo, stranger)
  await payByMppClient(demo, stranger)
}

const formatWalletBalance = async (
  chain: LocalChain,
  { address }: PrivateKeyAccount,
  name = 'Base',
) => `${roundUsdc(Number(await chain.balanceOf(address)) / 1e6)} on ${name}`

interface PaymentReply {
  readonly settlement_id?: string
  readonly transaction: string
}

/** Parses the payment response and records the settlement for the end of the demo. */
function readPaymentResponse(
  demo: DemoContext,
  { headers }: Pick<DemoReply<unknown>, 'headers'>,
): PaymentReply {
  const header = headers.get('payment-response') ?? ''
  const text = Buffer.from(header, 'base64').toString()
  assertDemoExpectation(text.startsWith('{'), 'a paid answer carries a PAYMENT-RESPONSE', header)
  const reply = JSON.parse(text) as PaymentReply
  if (reply.settlement_id !== undefined) demo.settlements.add(reply.settlement_id)
  return reply
}

interface SettlementReply {
  readonly state: string
  readonly tx_hash: string | null
}

/** Waits until a settlement has settled. */
export async function waitForDemoSettlement(
  demo: DemoContext,
  id: string,
): Promise<SettlementReply> {
  const look = () => demo.request<SettlementReply>(200, `GET /api/x402/settlements/${id}`)
  const { body } = await pollUntilExpected(
    `${id} settles`,
    look,
    (seen) => seen.body.state === 'settled',
  )
  return body
}

/** The short form of `Payment-Signature`: one signed authorization without a previous 402. */
async function payBySignatureHeader(demo: DemoContext, stranger: PrivateKeyAccount): Promise<void> {
  const { base } = demo.environment
  const headers = { 'payment-signature': await signPaymentSignature(demo, stranger) }
  const first = await demo.request(200, PAID_CALL, { json: {}, headers })
  const { settlement_id: id = '' } = readPaymentResponse(demo, first)
  const cost = first.body._meta.cost_usdc
  printDemoOutputLine({
    call: PAID_CALL,
    status: 200,
    result: 'by the header Payment-Signature',
    cost,
  })
  const { tx_hash: tx } = await waitForDemoSettlement(demo, id)
  const remaining = await formatWalletBalance(base, stranger)
  printDemoOutputLine({
    call: 'GET /api/x402/settlements/{id}',
    status: 200,
    result: `settled in ${shortenHex(tx ?? '')}`,
    remaining,
  })
  const again = await demo.request(200, PAID_CALL, { json: {}, headers })
  assertDemoExpectation(
    again.text === first.text,
    'a repeated payment gets the same answer',
    again.text,
  )
  assertDemoExpectation(
    again.headers.get('idempotency-replayed') === 'true',
    'a replay says so',
    again.text,
  )
  const after = await formatWalletBalance(base, stranger)
  assertDemoExpectation(after === remaining, 'a replay costs nothing', after)
  printDemoOutputLine({
    call: PAID_CALL,
    status: 200,
    result: 'the same header again: the same answer',
    cost: 0,
    remaining: after,
  })
}

async function signPaymentSignature(
  { environment }: DemoContext,
  payer: PrivateKeyAccount,
): Promise<string> {
  const { domain, chainId } = PAYMENT_NETWORKS.base
  const token = { address: environment.base.usdc, ...domain, chainId }
  const authorization = {
    from: payer.address.toLowerCase(),
    to: environment.treasury,
    value: PAID_CALL_ATOMIC,
    validAfter: 0n,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 300),
    nonce: `0x${randomBytes(32).toString('hex')}` as const,
  }
  const signature = await signEip3009Authorization(payer, token, authorization)
  const text = JSON.stringify(
    { x402Version: 2, payload: { authorization, signature } },
    (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
  )
  return Buffer.from(text).toString('base64')
}

/** A `fetch` that pays a 402 on Base; it refuses to pay more than one dollar. */
export function createPayingFetch(payer: PrivateKeyAccount): typeof fetch {
  const client = new x402Client()
  registerExactEvmScheme(client, { signer: payer })
  return wrapFetchWithPayment(fetch, client) as typeof fetch
}

async function payByX402Client(demo: DemoContext, stranger: PrivateKeyAccount): Promise<void> {
  const answer = await demo.request(200, PAID_CALL, {
    json: {},
    fetch: createPayingFetch(stranger),
  })
  const { settlement_id: id = '' } = readPaymentResponse(demo, answer)
  await waitForDemoSettlement(demo, id)
  const remaining = await formatWalletBalance(demo.environment.base, stranger)
  const cost = answer.body._meta.cost_usdc
  printDemoOutputLine({
    call: PAID_CALL,
    status: 200,
    result: '402, then 200: by the client @x402/fetch',
    cost,
    remaining,
  })
}

async function payByMppClient(demo: DemoContext, stranger: PrivateKeyAccount): Promise<void> {
  const { client } = demo.environment.tempo
  const charge = tempo.charge({ account: stranger, getClient: () => client })
  const { fetch: by } = Mppx.create({ polyfill: false, methods: [charge] })
  const answer = await demo.request(200, PAID_CALL, { json: {}, fetch: by as typeof fetch })
  const receipt = Receipt.fromResponse(new Response(null, { headers: answer.headers }))
  assertDemoExpectation(receipt.status === 'success', 'an MPP payment has a receipt', receipt)
  printDemoOutputLine({
    call: PAID_CALL,
    status: 200,
    result: `by the client mppx: ${shortenHex(receipt.reference)}, and its gas`,
    cost: answer.body._meta.cost_usdc,
    remaining: await formatWalletBalance(demo.environment.tempo, stranger, 'Tempo'),
  })
}
