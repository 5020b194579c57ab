import { registerExactEvmScheme } from '@x402/evm/exact/client'
import { PaymentRequiredV1Schema, PaymentRequiredV2Schema } from '@x402/core/schemas'
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from '@x402/fetch'
import t from 'tap'
import { recoverAddress } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { mppChallengeHeader } from '../../../chain/mpp/mpp-challenge.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import type {
  HexString,
  PaymentOffer,
  NormalizedPayment,
} from '../../../chain/onchain-payment-types.ts'
import { eip3009Digest } from '../../../chain/evm/eip3009.ts'
import {
  encodePaymentRequiredHeader,
  paymentResponseHeaders,
  toV1PaymentRequiredBody,
} from '../../../chain/x402/payment-response-headers-and-402-bodies.ts'
import { NO_PAYMENT_RAILS } from '../../../chain/x402/payment-requirements.ts'
import {
  EMPTY_BODY,
  FIXED_NOW_MS,
  samplePaymentOffer,
  ALL_TEST_RAILS,
  OFFER_TREASURY,
  OFFER_URL,
  readPaymentOfHeaders,
} from '../../support/payments/sample-payment-offer.ts'

/** The first dev account of anvil. */
const account = privateKeyToAccount(
  '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80',
)
const decode = (header: string | undefined) =>
  JSON.parse(Buffer.from(header ?? '', 'base64').toString('utf8'))

t.test('the 402 of version 2 equals the golden vector', async (t) => {
  const header = encodePaymentRequiredHeader(samplePaymentOffer(), 'invalid_exact_evm_signature')
  t.match(header, /^[A-Za-z0-9+/]+={0,2}$/, 'the only alphabet the SDK takes')
  t.match(header, /[+/]/, 'and not by chance')
  t.strictSame(decode(header), {
    x402Version: 2,
    error: 'invalid_exact_evm_signature',
    resource: {
      url: OFFER_URL,
      description: 'Looks at a page: really???',
      mimeType: 'application/json',
    },
    accepts: [
      {
        scheme: 'exact',
        maxTimeoutSeconds: 300,
        network: 'eip155:8453',
        amount: '30000',
        asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
        payTo: OFFER_TREASURY.toLowerCase(),
        extra: { name: 'USD Coin', version: '2' },
      },
      {
        scheme: 'exact',
        maxTimeoutSeconds: 300,
        network: 'eip155:56',
        amount: '30000000000000000',
        asset: '0x8ac76a51cc950d9822d68b83fe1ad97b32cd580d',
        payTo: OFFER_TREASURY.toLowerCase(),
        extra: { assetTransferMethod: 'permit2', name: 'USD Coin', version: '1', decimals: 18 },
      },
      {
        scheme: 'exact',
        maxTimeoutSeconds: 300,
        network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
        amount: '30000',
        asset: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
        payTo: '2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4',
        extra: { feePayer: 'EwWqGE4ZFKLofuestmU4LDdK7XM1N4ALgdZccwYugwGd' },
      },
    ],
    extensions: {},
  })
  t.equal(PaymentRequiredV2Schema.safeParse(decode(header)).success, true)
  t.notOk('error' in decode(encodePaymentRequiredHeader(samplePaymentOffer())))
})

t.test('the body of version 1 has only the fields that its strict client accepts', async (t) => {
  const entry = {
    scheme: 'exact',
    maxAmountRequired: '30000',
    resource: OFFER_URL,
    description: 'Looks at a page: really???',
    mimeType: 'application/json',
    payTo: OFFER_TREASURY.toLowerCase(),
    maxTimeoutSeconds: 300,
  }
  const body = toV1PaymentRequiredBody(samplePaymentOffer())
  t.strictSame(body, {
    x402Version: 1,
    accepts: [
      {
        ...entry,
        network: 'base',
        asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
        extra: { name: 'USD Coin', version: '2' },
      },
      {
        ...entry,
        network: 'solana',
        asset: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
        payTo: '2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4',
        extra: { feePayer: 'EwWqGE4ZFKLofuestmU4LDdK7XM1N4ALgdZccwYugwGd' },
      },
    ],
  })
  t.equal(PaymentRequiredV1Schema.safeParse({ ...body, error: 'payment_required' }).success, true)
  t.strictSame(toV1PaymentRequiredBody(samplePaymentOffer(NO_PAYMENT_RAILS)).accepts, [])
})

t.test('all headers of a 402 stay under 8 KB', async (t) => {
  const challenge =
    mppChallengeHeader(samplePaymentOffer(), { body: EMPTY_BODY, now: FIXED_NOW_MS }) ?? ''
  const size = encodePaymentRequiredHeader(samplePaymentOffer()).length + challenge.length
  t.ok(size > 1000 && size < 8000, `${size} bytes`)
})

t.test('each price is converted to atomic units once', async (t) => {
  for (const [usdc, six, eighteen] of [
    [0.000001, '1', '1000000000000'],
    [0.01, '10000', '10000000000000000'],
    [1, '1000000', '1000000000000000000'],
    [4.99, '4990000', '4990000000000000000'],
  ] as const) {
    const { requirements, mpp } = samplePaymentOffer(ALL_TEST_RAILS, usdc)
    t.strictSame(
      requirements.map(({ amount }) => amount),
      [six, eighteen, six],
    )
    t.equal(mpp?.amount, six)
  }
})

/** A server that requests payments and records them. */
function shop(asked: PaymentOffer, { v2 = true } = {}) {
  const paid: NormalizedPayment[] = []
  const serve = async (input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, init)
    const headers = Object.fromEntries(request.headers)
    const payment = await readPaymentOfHeaders(headers, { offer: asked, now: Date.now() })
    if (payment === null) {
      const required = v2 ? { 'PAYMENT-REQUIRED': encodePaymentRequiredHeader(asked) } : {}
      return Response.json(
        { error: 'payment_required', ...toV1PaymentRequiredBody(asked) },
        { status: 402, headers: required },
      )
    }
    paid.push(payment)
    const settlement = {
      success: true,
      transaction: `0x${'11'.repeat(32)}`,
      settlementId: 'id',
      settlementUrl: 'https://gas.example/api/x402/settlements/id',
      at: Date.now(),
    }
    return Response.json({ paid: true }, { headers: paymentResponseHeaders(payment, settlement) })
  }
  return { paid, serve }
}

/** Who signed a payment, when the token has the name and version of the pinned table. */
async function signerOf({ proof, ...payment }: NormalizedPayment): Promise<string> {
  if (proof.kind !== 'eip3009') throw new Error('it is no authorization')
  const token = { address: payment.asset, chainId: 8453, ...PAYMENT_NETWORKS.base.domain }
  const { amount: value, nonce } = payment
  const hash = eip3009Digest(token, { ...payment, value, nonce: nonce as HexString })
  return (await recoverAddress({ hash, signature: proof.signature })).toLowerCase()
}

for (const [wire, reply] of [
  ['v2', 'PAYMENT-RESPONSE'],
  ['v1', 'X-PAYMENT-RESPONSE'],
] as const) {
  t.test(`the unmodified client of ${wire} reads our 402, pays and reads our reply`, async (t) => {
    const client = registerExactEvmScheme(new x402Client(), { signer: account })
    const { paid, serve } = shop(samplePaymentOffer(), { v2: wire === 'v2' })
    const answer = await wrapFetchWithPayment(serve as typeof fetch, client)(OFFER_URL, {
      method: 'POST',
    })
    t.equal(answer.status, 200)
    t.match(paid, [
      { wire, chain: 'eip155:8453', amount: 30_000n, from: account.address.toLowerCase() },
    ])
    t.equal(await signerOf(paid[0] as NormalizedPayment), account.address.toLowerCase())
    t.match(decodePaymentResponseHeader(answer.headers.get(reply) ?? ''), {
      success: true,
      transaction: `0x${'11'.repeat(32)}`,
      network: wire === 'v1' ? 'base' : 'eip155:8453',
      payer: account.address.toLowerCase(),
      amount: '30000',
      settlement_id: 'id',
    })
  })
}

t.test('the unmodified client signs Permit2 if only BSC is offered', async (t) => {
  const allowed = { network: 'eip155:56', asset: PAYMENT_NETWORKS.bsc.asset } as const
  const controlled = new x402Client().setSpendControls({ allowedAssets: [allowed] })
  const client = registerExactEvmScheme(controlled, { signer: account })
  const { paid, serve } = shop(samplePaymentOffer({ ...ALL_TEST_RAILS, base: null, solana: null }))
  const answer = await wrapFetchWithPayment(serve as typeof fetch, client)(OFFER_URL, {
    method: 'POST',
  })
  t.equal(answer.status, 200)
  t.match(paid, [{ chain: 'eip155:56', amount: 30_000n * 10n ** 12n, proof: { kind: 'permit2' } }])
})

t.test('a reply contains the known fields, in the dialect of the payment', async (t) => {
  const payment = (wire: NormalizedPayment['wire']) =>
    ({ wire, chain: 'eip155:8453', from: '0xf39f', amount: 30_000n }) as NormalizedPayment
  const settlement = {
    success: true,
    transaction: '0x12',
    settlementId: 'id',
    settlementUrl: 'https://gas.example/s',
    at: FIXED_NOW_MS,
  }
  const expected = {
    success: true,
    transaction: '0x12',
    network: 'eip155:8453',
    payer: '0xf39f',
    amount: '30000',
    settlement_id: 'id',
    settlement_url: 'https://gas.example/s',
  }
  for (const wire of ['short', 'v2'] as const) {
    const headers = paymentResponseHeaders(payment(wire), settlement)
    t.strictSame(Object.keys(headers), ['PAYMENT-RESPONSE'])
    t.strictSame(decode(headers['PAYMENT-RESPONSE']), expected)
  }
  const v1 = paymentResponseHeaders(payment('v1'), settlement)
  t.strictSame(decode(v1['X-PAYMENT-RESPONSE']), { ...expected, network: 'base' })
  const failed = { ...settlement, success: false, transaction: '', errorReason: 'expired' }
  t.match(decode(paymentResponseHeaders(payment('v2'), failed)['PAYMENT-RESPONSE']), {
    success: false,
    transaction: '',
    errorReason: 'expired',
  })
  t.strictSame(paymentResponseHeaders(payment('mpp'), failed), {}, 'no receipt of what failed')
  const receipt = paymentResponseHeaders(payment('mpp'), settlement)['Payment-Receipt'] ?? ''
  t.strictSame(JSON.parse(Buffer.from(receipt, 'base64url').toString()), {
    method: 'tempo',
    status: 'success',
    timestamp: new Date(FIXED_NOW_MS).toISOString(),
    reference: '0x12',
  })
})
