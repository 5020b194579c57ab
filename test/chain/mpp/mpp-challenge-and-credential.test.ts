import { Challenge } from 'mppx'
import t from 'tap'
import { keccak256 } from 'viem'
import { Transaction } from 'viem/tempo'
import { expectedMppMemo } from '../../../chain/mpp/read-mpp-payment.ts'
import {
  mppBodyDigest,
  canonicalJson,
  mppChallengeHeader,
  mppChallengeId,
  encodeCanonicalJsonBase64Url,
} from '../../../chain/mpp/mpp-challenge.ts'
import {
  hashPaymentCredential,
  decodeStoredPayment,
  encodePaymentForStorage,
  type HexString,
} from '../../../chain/onchain-payment-types.ts'
import { fromUsdc } from '../../../core/money.ts'
import {
  TEMPO_DEV_ACCOUNT,
  CHARGED_REQUEST_BODY,
  createTempoChargeCredential,
  tempoChargeMemoFor,
  PATH_USD_ADDRESS,
  readTempoChargePayment,
  encodeTransferWithMemo,
  type TempoChargeOverrides,
} from '../../support/payments/sample-tempo-charges.ts'
import {
  EMPTY_BODY,
  FIXED_NOW_MS,
  samplePaymentOffer,
  paymentProblemOf,
  ALL_TEST_RAILS,
  FIXED_NOW_SECONDS,
  OFFER_TREASURY,
} from '../../support/payments/sample-payment-offer.ts'

const SECRET = '0123456789abcdef0123456789abcdef'
const bytes = (text: string) => new TextEncoder().encode(text)
const mac = samplePaymentOffer().mpp?.mac ?? (() => '')

t.test('the challenge equals the golden vector', async (t) => {
  const request = {
    recipient: '0x742d35Cc6634C0532925a3b844Bc9e7595f8fE00',
    methodDetails: { chainId: 4217 },
    currency: PATH_USD_ADDRESS,
    amount: '10000',
  }
  t.equal(
    canonicalJson(request),
    '{"amount":"10000","currency":"0x20c0000000000000000000000000000000000000","methodDetails":{"chainId":4217},"recipient":"0x742d35Cc6634C0532925a3b844Bc9e7595f8fE00"}',
  )
  const challenge = {
    realm: 'api.example.com',
    method: 'tempo',
    intent: 'charge',
    request: encodeCanonicalJsonBase64Url(request),
    expires: '2026-11-20T20:00:00Z',
  }
  const id = '0M3-Pp5UdyPKkuZnSSN_sEc-YMwsFhg-WkA4sbBQQOQ'
  t.equal(mppChallengeId({ mac }, challenge), id)
  const { server, challenge: end } = expectedMppMemo('api.example.com', id)
  t.equal(
    `${server}${'00'.repeat(10)}${end}`,
    '0xef1ed712011ece072f76bd8b82350e00000000000000000000b7369e827f9da4',
  )
  t.equal(
    mppBodyDigest(CHARGED_REQUEST_BODY),
    'sha-256=XcXFBaeb/C6yLQ5F7/QVxuzwyWXD1T1uPgLBvadLCSc=',
  )
})

t.test('the reference implementation parses every part of our challenge', async (t) => {
  const header =
    mppChallengeHeader(samplePaymentOffer(), { body: CHARGED_REQUEST_BODY, now: FIXED_NOW_MS }) ??
    ''
  const challenge = Challenge.deserialize(header)
  t.strictSame(challenge.request, {
    amount: '30000',
    currency: PATH_USD_ADDRESS,
    methodDetails: { chainId: 4217, supportedModes: ['pull'] },
    recipient: OFFER_TREASURY.toLowerCase(),
  })
  t.match(challenge, {
    realm: 'gas.example',
    method: 'tempo',
    intent: 'charge',
    expires: new Date(FIXED_NOW_MS + 300_000).toISOString().replace('.000', ''),
    digest: mppBodyDigest(CHARGED_REQUEST_BODY),
  })
  t.equal(Challenge.verify(challenge, { secretKey: SECRET }), true)
  t.equal(Challenge.verify(challenge, { secretKey: `${SECRET}0` }), false)
  t.equal(Challenge.serialize(challenge), header)
})

t.test('a quotation mark in the realm is escaped and parsed back', async (t) => {
  const rails = {
    ...ALL_TEST_RAILS,
    tempo: ALL_TEST_RAILS.tempo && { ...ALL_TEST_RAILS.tempo, realm: 'a "b" \\c' },
  }
  const header =
    mppChallengeHeader(samplePaymentOffer(rails), { body: EMPTY_BODY, now: FIXED_NOW_MS }) ?? ''
  t.equal(Challenge.deserialize(header).realm, 'a "b" \\c')
})

t.test('without MPP there is no challenge', async (t) => {
  t.equal(
    mppChallengeHeader(samplePaymentOffer({ ...ALL_TEST_RAILS, tempo: null }), {
      body: EMPTY_BODY,
      now: FIXED_NOW_MS,
    }),
    null,
  )
})

async function reasonOf(reading: Promise<unknown>): Promise<string> {
  const [status, reason] = await paymentProblemOf(reading)
  return `${status === 402 ? '' : status}${reason}`
}

t.test('a credential is parsed as a payment', async (t) => {
  const { id, raw, text } = await createTempoChargeCredential()
  const payment = await readTempoChargePayment(text)
  t.strictSame(payment, {
    rail: 'mpp',
    wire: 'mpp',
    chain: 'eip155:4217',
    asset: PATH_USD_ADDRESS,
    from: TEMPO_DEV_ACCOUNT.address.toLowerCase(),
    to: OFFER_TREASURY.toLowerCase(),
    amount: 30_000n,
    price: fromUsdc(0.03),
    validAfter: 0n,
    validBefore: BigInt(FIXED_NOW_SECONDS + 25),
    nonce: id,
    identifier: null,
    proof: { kind: 'mpp', raw, challengeId: id, hash: keccak256(raw) },
  })
  if (payment === null) return
  t.strictSame(decodeStoredPayment(encodePaymentForStorage(payment)), payment)
  t.match(hashPaymentCredential(payment), /^[0-9a-f]{64}$/)
  t.match(await readTempoChargePayment(`Bearer gas_key, ${text}`), { nonce: id })
})

t.test('an invalid credential is rejected as malformed', async (t) => {
  const { text } = await createTempoChargeCredential()
  const document = JSON.parse(Buffer.from(text.slice(8), 'base64url').toString())
  const spelled = (value: unknown) =>
    `Payment ${Buffer.from(JSON.stringify(value)).toString('base64url')}`
  const { id: _, ...nameless } = document.challenge
  const table: Record<string, string> = {
    nothing: 'Payment ',
    'no base64': 'Payment {}',
    'no JSON': 'Payment AAAA',
    'too long': `${text}${'A'.repeat(8192)}`,
    'no challenge': spelled({ payload: document.payload }),
    'no payload': spelled({ challenge: document.challenge }),
    'no id': spelled({ ...document, challenge: nameless }),
    'no type': spelled({ ...document, payload: { signature: '0x76' } }),
    'a request that is an object': spelled({
      ...document,
      challenge: { ...document.challenge, request: {} },
    }),
    'a signature that is no hex': spelled({
      ...document,
      payload: { type: 'transaction', signature: 'x' },
    }),
  }
  for (const [what, header] of Object.entries(table)) {
    t.equal(await reasonOf(readTempoChargePayment(header)), 'malformed-credential', what)
  }
})

t.test('only our own challenge for this body, price and time is accepted', async (t) => {
  const { text } = await createTempoChargeCredential()
  t.equal(
    await reasonOf(readTempoChargePayment(text, { body: bytes('{"url":"https://other"}') })),
    'invalid-challenge',
  )
  t.equal(
    await reasonOf(
      readTempoChargePayment(text, { asked: samplePaymentOffer(ALL_TEST_RAILS, 0.05) }),
    ),
    'payment-insufficient',
  )
  const lasting = await createTempoChargeCredential({
    transaction: { validBefore: FIXED_NOW_SECONDS + 900 },
  })
  t.match(await readTempoChargePayment(lasting.text, { now: FIXED_NOW_MS + 299_999 }), {
    wire: 'mpp',
  })
  t.equal(
    await reasonOf(readTempoChargePayment(lasting.text, { now: FIXED_NOW_MS + 300_000 })),
    'payment-expired',
  )
  for (const [name, value] of [
    ['id', `${(await createTempoChargeCredential()).id.slice(0, -1)}_`],
    ['realm', 'other.example'],
    ['method', 'stripe'],
    ['intent', 'session'],
    ['expires', new Date(FIXED_NOW_MS + 600_000).toISOString()],
    ['digest', mppBodyDigest(bytes('{}'))],
    ['request', { amount: '1', currency: PATH_USD_ADDRESS, recipient: OFFER_TREASURY }],
  ] as const) {
    const forged = await createTempoChargeCredential({ challenge: { [name]: value } })
    t.equal(await reasonOf(readTempoChargePayment(forged.text)), 'invalid-challenge', name)
  }
  const rails = {
    ...ALL_TEST_RAILS,
    tempo: ALL_TEST_RAILS.tempo && { ...ALL_TEST_RAILS.tempo, realm: 'b.example' },
  }
  const elsewhere = await createTempoChargeCredential({}, { asked: samplePaymentOffer(rails) })
  t.equal(
    await reasonOf(readTempoChargePayment(elsewhere.text)),
    'invalid-challenge',
    'same secret, other realm',
  )
})

t.test('only a transaction that pays exactly this challenge is accepted', async (t) => {
  const { id, raw } = await createTempoChargeCredential()
  const { server, challenge: end } = expectedMppMemo('gas.example', id)
  const client = `${server}${'77'.repeat(10)}${end}` as HexString
  const paying = {
    to: PATH_USD_ADDRESS as HexString,
    data: encodeTransferWithMemo(OFFER_TREASURY, 30_000n, tempoChargeMemoFor(id)),
  }
  const free = { to: PATH_USD_ADDRESS as HexString, data: '0xa9059cbb' as HexString }
  t.match(
    await readTempoChargePayment((await createTempoChargeCredential({ memo: client })).text),
    {
      amount: 30_000n,
    },
  )
  t.match(
    await readTempoChargePayment(
      (await createTempoChargeCredential({ calls: [free, paying] })).text,
    ),
    {
      amount: 30_000n,
    },
  )
  const table: [string, TempoChargeOverrides][] = [
    ['underpaid', { amount: 29_999n }],
    ['overpaid', { amount: 30_001n }],
    ['other recipient', { to: TEMPO_DEV_ACCOUNT.address }],
    ['dirty recipient', { call: { data: paying.data.replace('59000', '59f00') as HexString } }],
    ['other token', { call: { to: '0x20c0000000000000000000000000000000000001' } }],
    ['no memo', { call: { data: paying.data.slice(0, -64) as HexString } }],
    ['more behind the memo', { call: { data: `${paying.data}00` } }],
    [
      'other function',
      { call: { data: paying.data.replace('95777d59', 'a9059cbb') as HexString } },
    ],
    ['memo of another server', { memo: tempoChargeMemoFor(id, 'other.example') }],
    ['memo of another challenge', { memo: tempoChargeMemoFor('another') }],
    ['paid twice', { calls: [paying, paying] }],
    [
      'two challenges in one',
      {
        calls: [
          paying,
          {
            ...paying,
            data: encodeTransferWithMemo(OFFER_TREASURY, 30_000n, tempoChargeMemoFor('another')),
          },
        ],
      },
    ],
    ['other chain', { transaction: { chainId: 42431 } }],
    ['never expires', { transaction: { validBefore: undefined } }],
    ['expires in a day', { transaction: { validBefore: FIXED_NOW_SECONDS + 86_400 } }],
    ['not valid yet', { transaction: { validAfter: FIXED_NOW_SECONDS + 5 } }],
    ['waits for a sponsor', { transaction: { feePayerSignature: null } }],
    ['of type hash', { credential: { type: 'hash', hash: `0x${'11'.repeat(32)}` } }],
    ['of type proof', { credential: { type: 'proof' } }],
    ['of Ethereum', { credential: { signature: '0x02f870' } }],
    ['for a sponsor', { credential: { signature: `0x78${raw.slice(4)}` } }],
    ['garbage', { credential: { signature: `0x76${'ff'.repeat(90)}` } }],
  ]
  for (const [what, change] of table) {
    t.equal(
      await reasonOf(readTempoChargePayment((await createTempoChargeCredential(change)).text)),
      'verification-failed',
      what,
    )
  }
  const late = await createTempoChargeCredential({
    transaction: { validBefore: FIXED_NOW_SECONDS + 1 },
  })
  t.equal(await reasonOf(readTempoChargePayment(late.text)), 'payment-expired')
})

t.test('the payer is recovered from the signature and never read from a field', async (t) => {
  // the slot of the sponsor's signature holds an address: a stranger as the sender
  const { raw } = await createTempoChargeCredential({ transaction: { feePayerSignature: null } })
  const named = await Transaction.serialize({
    ...Transaction.deserialize(raw as `0x76${string}`),
    from: '0x70997970C51812dc3A010C7d01b50e0d17dc79C8',
  } as never)
  for (const signature of [named, `0x76${named.slice(4)}`]) {
    const { text } = await createTempoChargeCredential({ credential: { signature } })
    t.equal(await reasonOf(readTempoChargePayment(text)), 'verification-failed')
  }
})
