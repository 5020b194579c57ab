import { randomBytes } from 'node:crypto'
import { registerExactEvmScheme } from '@x402/evm/exact/client'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { Receipt } from 'mppx'
import { Mppx, tempo } from 'mppx/client'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { NETWORKS } from '../../chain/networks.ts'
import { signAuthorization } from '../../chain/usdc.ts'
import { usdc, type Day } from './day.ts'
import { eventually, type Answer } from './door.ts'
import { brief, chapter, insist, tell } from './telling.ts'
import type { LocalChain } from '../chain/local-chain.ts'

const CALL = 'POST /api/t/hive-trending'
const PRICE = 5_000n
const DOLLARS = 10_000_000n

interface Challenge {
  readonly code: string
  readonly price_usdc: number
  readonly accepts: readonly unknown[]
}

/** Somebody with a wallet, and no account here. */
export async function strangerPays(day: Day): Promise<void> {
  chapter('A stranger with a wallet pays by the call, without a key')
  const { base, tempo: chain } = day.world
  const stranger = privateKeyToAccount(generatePrivateKey())
  await Promise.all([base.mint(stranger.address, DOLLARS), chain.mint(stranger.address, DOLLARS)])
  const { headers, body } = await day.ask<Challenge>(402, CALL, { json: {} })
  insist(headers.has('payment-required'), 'a 402 offers x402', [...headers.keys()])
  insist(headers.has('www-authenticate'), 'a 402 offers MPP', [...headers.keys()])
  insist(body.price_usdc === Number(PRICE) / 1e6, 'a 402 names the price', body)
  const offered = 'one answer offers x402 v2, x402 v1 and MPP'
  tell({ call: CALL, status: 402, said: offered, cost: 0, left: await walletOf(base, stranger) })
  await shortHeader(day, stranger)
  await byX402(day, stranger)
  await byMpp(day, stranger)
}

const walletOf = async (chain: LocalChain, { address }: PrivateKeyAccount, name = 'Base') =>
  `${usdc(Number(await chain.balanceOf(address)) / 1e6)} on ${name}`

interface PaymentReply {
  readonly settlement_id?: string
  readonly transaction: string
}

/** What a paid answer says of its payment; the settlement is remembered for the end of the day. */
function replyOf(day: Day, { headers }: Pick<Answer<unknown>, 'headers'>): PaymentReply {
  const header = headers.get('payment-response') ?? ''
  const text = Buffer.from(header, 'base64').toString()
  insist(text.startsWith('{'), 'a paid answer carries a PAYMENT-RESPONSE', header)
  const reply = JSON.parse(text) as PaymentReply
  if (reply.settlement_id !== undefined) day.settlements.add(reply.settlement_id)
  return reply
}

interface Settlement {
  readonly state: string
  readonly tx_hash: string | null
}

/** A settlement when its money has arrived. */
export async function settled(day: Day, id: string): Promise<Settlement> {
  const look = () => day.ask<Settlement>(200, `GET /api/x402/settlements/${id}`)
  const { body } = await eventually(`${id} settles`, look, (seen) => seen.body.state === 'settled')
  return body
}

/** The short form of `Payment-Signature`: one signed authorization, and nothing asked before. */
async function shortHeader(day: Day, stranger: PrivateKeyAccount): Promise<void> {
  const { base } = day.world
  const headers = { 'payment-signature': await signedHeader(day, stranger) }
  const first = await day.ask(200, CALL, { json: {}, headers })
  const { settlement_id: id = '' } = replyOf(day, first)
  const cost = first.body._meta.cost_usdc
  tell({ call: CALL, status: 200, said: 'by the header Payment-Signature', cost })
  const { tx_hash: tx } = await settled(day, id)
  const left = await walletOf(base, stranger)
  tell({
    call: 'GET /api/x402/settlements/{id}',
    status: 200,
    said: `settled in ${brief(tx ?? '')}`,
    left,
  })
  const again = await day.ask(200, CALL, { json: {}, headers })
  insist(again.text === first.text, 'a repeated payment gets the same answer', again.text)
  insist(again.headers.get('idempotency-replayed') === 'true', 'a replay says so', again.text)
  const after = await walletOf(base, stranger)
  insist(after === left, 'a replay costs nothing', after)
  tell({
    call: CALL,
    status: 200,
    said: 'the same header again: the same answer',
    cost: 0,
    left: after,
  })
}

async function signedHeader({ world }: Day, payer: PrivateKeyAccount): Promise<string> {
  const { domain, chainId } = NETWORKS.base
  const token = { address: world.base.usdc, ...domain, chainId }
  const authorization = {
    from: payer.address.toLowerCase(),
    to: world.treasury,
    value: PRICE,
    validAfter: 0n,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + 300),
    nonce: `0x${randomBytes(32).toString('hex')}` as const,
  }
  const signature = await signAuthorization(payer, token, authorization)
  const text = JSON.stringify(
    { x402Version: 2, payload: { authorization, signature } },
    (_key, value: unknown) => (typeof value === 'bigint' ? String(value) : value),
  )
  return Buffer.from(text).toString('base64')
}

/** A `fetch` that pays what a 402 asks on Base; it refuses to pay more than one dollar. */
export function payingFetch(payer: PrivateKeyAccount): typeof fetch {
  const client = new x402Client()
  registerExactEvmScheme(client, { signer: payer })
  return wrapFetchWithPayment(fetch, client) as typeof fetch
}

async function byX402(day: Day, stranger: PrivateKeyAccount): Promise<void> {
  const answer = await day.ask(200, CALL, { json: {}, by: payingFetch(stranger) })
  const { settlement_id: id = '' } = replyOf(day, answer)
  await settled(day, id)
  const left = await walletOf(day.world.base, stranger)
  const cost = answer.body._meta.cost_usdc
  tell({ call: CALL, status: 200, said: '402, then 200: by the client @x402/fetch', cost, left })
}

async function byMpp(day: Day, stranger: PrivateKeyAccount): Promise<void> {
  const { client } = day.world.tempo
  const charge = tempo.charge({ account: stranger, getClient: () => client })
  const { fetch: by } = Mppx.create({ polyfill: false, methods: [charge] })
  const answer = await day.ask(200, CALL, { json: {}, by: by as typeof fetch })
  const receipt = Receipt.fromResponse(new Response(null, { headers: answer.headers }))
  insist(receipt.status === 'success', 'an MPP payment has a receipt', receipt)
  tell({
    call: CALL,
    status: 200,
    said: `by the client mppx: ${brief(receipt.reference)}, and its gas`,
    cost: answer.body._meta.cost_usdc,
    left: await walletOf(day.world.tempo, stranger, 'Tempo'),
  })
}
