import { createHash } from 'node:crypto'
import t from 'tap'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import {
  hashPaymentCredential,
  decodeStoredPayment,
  encodePaymentForStorage,
} from '../../../chain/onchain-payment-types.ts'
import {
  toBase64Text,
  samplePaymentOffer,
  paymentProblemOf,
  readPaymentOfHeaders,
  FIXED_NOW_SECONDS,
} from '../../support/payments/sample-payment-offer.ts'

const [, , SOLANA] = samplePaymentOffer().requirements
const pay = (document: unknown) =>
  readPaymentOfHeaders({ 'payment-signature': toBase64Text(document) })

/** A v0 message: header, keys, blockhash, one instruction of the token program. */
function solanaTransaction({
  signers = 2,
  owner = 1,
  data = [12, 48, 117, 0, 0, 0, 0, 0, 0, 6],
} = {}) {
  const token = Buffer.from(
    '06ddf6e1d765a193d9cbe146ceeb79ac1cb485ed5f5b37913a8cf5857eff00a9',
    'hex',
  )
  const keys = [1, 2, 3, 4, 5].map((fill) => Buffer.alloc(32, fill)).concat(token)
  const message = Buffer.concat([
    Buffer.from([0x80, signers, 1, 2, keys.length, ...Buffer.concat(keys)]),
    Buffer.alloc(32, 9),
    Buffer.from([1, 5, 4, 2, 3, 4, owner, data.length, ...data, 0]),
  ])
  const signatures = [Buffer.alloc(64), Buffer.alloc(64, 7)].slice(0, signers)
  return { message, bytes: Buffer.concat([Buffer.from([signers]), ...signatures, message]) }
}

/** The same behind an instruction that advances a nonce: it never expires. */
function durable(): Buffer {
  const { message } = solanaTransaction()
  const header = [0x80, 2, 1, 3, 7]
  const keys = Buffer.concat([message.subarray(5, 5 + 6 * 32), Buffer.alloc(32)])
  const [blockhash, transfer] = [message.subarray(197, 229), message.subarray(230, -1)]
  const advance = [6, 3, 2, 3, 1, 4, 4, 0, 0, 0]
  return Buffer.concat([
    Buffer.from([2]),
    Buffer.alloc(128),
    Buffer.from(header),
    keys,
    blockhash,
    Buffer.from([2, ...advance]),
    transfer,
    Buffer.from([0]),
  ])
}

t.test(
  'a Solana transaction is identified by its message and belongs to the token owner',
  async (t) => {
    const { message, bytes } = solanaTransaction()
    const transaction = bytes.toString('base64')
    const payment = await pay({ x402Version: 2, accepted: SOLANA, payload: { transaction } })
    t.match(payment, {
      rail: 'x402',
      wire: 'v2',
      chain: PAYMENT_NETWORKS.solana.caip2,
      asset: PAYMENT_NETWORKS.solana.asset,
      // base58 of 32 bytes of 2
      from: '8qbHbw2BbbTHBW1sbeqakYXVKRQM8Ne7pLK7m6CVfeR',
      amount: 30_000n,
      validBefore: BigInt(FIXED_NOW_SECONDS + 300),
      nonce: createHash('sha256').update(message).digest('hex'),
      proof: { kind: 'solana', transaction, requirement: SOLANA },
    })
    const v1 = { x402Version: 1, scheme: 'exact', network: 'solana', payload: { transaction } }
    t.match(await pay(v1), { wire: 'v1', nonce: payment?.nonce })
    if (payment === null) throw new Error('there is a header')
    t.strictSame(decodeStoredPayment(encodePaymentForStorage(payment)), payment)
    t.equal(hashPaymentCredential(payment), createHash('sha256').update(bytes).digest('hex'))
  },
)

t.test('a Solana transaction other than a token transfer is malformed', async (t) => {
  const { bytes, message } = solanaTransaction()
  const broken = [
    bytes.subarray(0, -20),
    Buffer.concat([bytes, Buffer.alloc(1300)]),
    solanaTransaction({ owner: 3 }).bytes,
    solanaTransaction({ owner: 99 }).bytes,
    solanaTransaction({ data: [3, 48, 117, 0, 0, 0, 0, 0, 0] }).bytes,
    Buffer.concat([Buffer.from([1]), bytes.subarray(1)]),
    Buffer.concat([Buffer.from([3]), Buffer.alloc(3 * 64), message]),
    durable(),
    Buffer.alloc(0),
    Buffer.alloc(300, 0xff),
  ].map((one) => one.toString('base64'))
  for (const transaction of [...broken, '?', 7]) {
    const document = { x402Version: 2, accepted: SOLANA, payload: { transaction } }
    t.strictSame(await paymentProblemOf(pay(document)), [400, 'invalid_payload'])
  }
})
