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
  paymentProblemOf,
  ALL_TEST_RAILS,
  OFFER_TREASURY,
} from '../../support/payments/sample-payment-offer.ts'
import {
  sampleX402V2Payment,
  sampleX402Permit2Payment,
  readSampleX402Payment,
  readX402RequestHeaders,
  X402_BASE_REQUIREMENT,
  X402_BSC_REQUIREMENT,
  X402_SOLANA_REQUIREMENT,
  sampleX402Payload,
  SAMPLE_X402_SIGNATURE,
  X402_PAYER,
  sampleX402Eip3009Authorization,
  sampleX402V1Payment,
  NORMALIZED_X402_PAYMENT,
} from '../../support/payments/sample-x402-payments.ts'

const short = { x402Version: 2, payload: sampleX402Payload }

t.test('the three dialects of Base give one payment', async (t) => {
  t.strictSame(await readSampleX402Payment(sampleX402V2Payment), {
    rail: 'x402',
    wire: 'v2',
    ...NORMALIZED_X402_PAYMENT,
  })
  t.strictSame(await readSampleX402Payment(short), {
    rail: 'eip3009',
    wire: 'short',
    ...NORMALIZED_X402_PAYMENT,
  })
  t.strictSame(await readX402RequestHeaders({ 'x-payment': toBase64Text(sampleX402V1Payment) }), {
    rail: 'x402',
    wire: 'v1',
    ...NORMALIZED_X402_PAYMENT,
  })
})

t.test('without a payment header there is no payment', async (t) => {
  t.equal(await readX402RequestHeaders({}), null)
  t.equal(await readX402RequestHeaders({ authorization: 'Bearer gas_key' }), null)
})

t.test(
  'payment-signature takes precedence over x-payment, and x-payment over Authorization',
  async (t) => {
    const both = { 'x-payment': toBase64Text(sampleX402V1Payment), authorization: 'Payment e30' }
    t.match(
      await readX402RequestHeaders({
        ...both,
        'payment-signature': toBase64Text(sampleX402V2Payment),
      }),
      {
        wire: 'v2',
      },
    )
    t.match(await readX402RequestHeaders(both), { wire: 'v1' })
    const key = { authorization: 'Bearer gas_key, Payment e30' }
    t.strictSame(await paymentProblemOf(readX402RequestHeaders(key)), [402, 'malformed-credential'])
  },
)

t.test('base64url is accepted, with or without padding', async (t) => {
  const text = JSON.stringify({ ...short, resource: { url: '???>>>' } })
  const url = Buffer.from(text).toString('base64url')
  t.match(url, /[-_]/)
  t.match(await readX402RequestHeaders({ 'payment-signature': url }), { wire: 'short' })
  const padded = url.padEnd(Math.ceil(url.length / 4) * 4, '=')
  t.match(await readX402RequestHeaders({ 'payment-signature': padded }), { wire: 'short' })
})

t.test('addresses are compared by their bytes, in any case', async (t) => {
  const to = `0x${OFFER_TREASURY.slice(2).toUpperCase()}`
  const wrongChecksum = X402_PAYER.toLowerCase().replace('fd', 'FD')
  const signed = {
    ...sampleX402Payload,
    authorization: { ...sampleX402Eip3009Authorization, to, from: wrongChecksum },
  }
  const accepted = {
    ...X402_BASE_REQUIREMENT,
    payTo: to,
    asset: X402_BASE_REQUIREMENT?.asset.toLowerCase(),
  }
  t.match(await readSampleX402Payment({ x402Version: 2, accepted, payload: signed }), {
    to: OFFER_TREASURY.toLowerCase(),
    from: X402_PAYER.toLowerCase(),
  })
})

t.test('resource, extra and extensions of the client do not change the payment', async (t) => {
  const payment = await readSampleX402Payment({
    ...sampleX402V2Payment,
    accepted: {
      ...X402_BASE_REQUIREMENT,
      extra: { name: 'Free Coin', version: '9' },
      maxTimeoutSeconds: 1,
    },
    resource: { url: 'https://gas.example/api/t/cheapest' },
    extensions: { bazaar: { price: '1' } },
  })
  t.strictSame(payment, { rail: 'x402', wire: 'v2', ...NORMALIZED_X402_PAYMENT })
})

t.test('an identifier of the client is stored, an invalid one rejected', async (t) => {
  const identified = (id: unknown) =>
    readSampleX402Payment({
      ...sampleX402V2Payment,
      extensions: { 'payment-identifier': { info: { required: false, id } } },
    })
  t.match(await identified('pay_7d5d747be160e280'), { identifier: 'pay_7d5d747be160e280' })
  for (const id of ['too_short', 'x'.repeat(129), 'pay 7d5d747be160e280', 7, null]) {
    t.strictSame(await paymentProblemOf(identified(id)), [400, 'invalid_payload'], String(id))
  }
})

t.test('an unreadable payment header is rejected as malformed', async (t) => {
  const text = JSON.stringify(sampleX402V2Payment)
  const change = (fields: object) => ({
    ...sampleX402V2Payment,
    payload: {
      ...sampleX402Payload,
      authorization: { ...sampleX402Eip3009Authorization, ...fields },
    },
  })
  const headers: Record<string, string> = {
    empty: '',
    'no base64': '{"x402Version":2}',
    'a character that Buffer drops': toBase64Text(text).replace('e', 'e\u0000'),
    'two headers joined': `${toBase64Text(text)}, ${toBase64Text(text)}`,
    'mixed alphabet': toBase64Text({ ...sampleX402V2Payment, more: '???>>>' }).replace('/', '_'),
    'padding in the middle': `${toBase64Text(text).slice(0, 40)}=${toBase64Text(text).slice(40)}`,
    'one digit too many': 'A'.repeat(5),
    'wrong padding': `${toBase64Text('{}')}=`,
    'nine KiB': toBase64Text({ ...sampleX402V2Payment, more: 'x'.repeat(6_912) }),
    'no JSON': toBase64Text('payment'),
    'a list': toBase64Text([sampleX402V2Payment]),
    'a number': toBase64Text('2'),
    'invalid UTF-8': Buffer.from(
      JSON.stringify({ ...sampleX402V2Payment, more: 'ÿ' }),
      'latin1',
    ).toString('base64'),
    'a byte order mark': toBase64Text(`\uFEFF${text}`),
    'a key twice': toBase64Text(text.replace('{', '{"x402Version":2,')),
    'a key twice inside': toBase64Text(text.replace('"value"', '"value":"1","value"')),
    'a key twice, spelled with an escape': toBase64Text(
      text.replace('"value"', '"v\\u0061lue":"1","value"'),
    ),
    'a prototype': toBase64Text(text.replace('"payload"', '"__proto__":{"x":1},"payload"')),
    'nested too deep': toBase64Text({
      ...sampleX402V2Payment,
      more: JSON.parse(`${'['.repeat(40)}${']'.repeat(40)}`),
    }),
    'no version': toBase64Text({ payload: sampleX402Payload }),
    'version 3': toBase64Text({ ...sampleX402V2Payment, x402Version: 3 }),
    'version as text': toBase64Text({ ...sampleX402V2Payment, x402Version: '2' }),
    'no payload': toBase64Text({ x402Version: 2, accepted: X402_BASE_REQUIREMENT }),
    'accepted is null': toBase64Text({ ...sampleX402V2Payment, accepted: null }),
    'accepted without an amount': toBase64Text({
      ...sampleX402V2Payment,
      accepted: { ...X402_BASE_REQUIREMENT, amount: undefined },
    }),
    'accepted with a number': toBase64Text({
      ...sampleX402V2Payment,
      accepted: { ...X402_BASE_REQUIREMENT, amount: 30000 },
    }),
    'v1 without a scheme': toBase64Text({ ...sampleX402V1Payment, scheme: undefined }),
    'no signature': toBase64Text({
      ...sampleX402V2Payment,
      payload: { authorization: sampleX402Eip3009Authorization },
    }),
    'a signature of 64 bytes': toBase64Text({
      ...sampleX402V2Payment,
      payload: { authorization: sampleX402Eip3009Authorization, signature: `0x${'ab'.repeat(64)}` },
    }),
    'a signature of 2049 bytes': toBase64Text({
      ...short,
      payload: {
        authorization: sampleX402Eip3009Authorization,
        signature: `0x${'ab'.repeat(2049)}`,
      },
    }),
    'an odd signature': toBase64Text({
      ...sampleX402V2Payment,
      payload: {
        authorization: sampleX402Eip3009Authorization,
        signature: `${SAMPLE_X402_SIGNATURE}a`,
      },
    }),
    'a value as a number': toBase64Text(change({ value: 30000 })),
    'a value in hex': toBase64Text(change({ value: '0x7530' })),
    'a negative value': toBase64Text(change({ value: '-30000' })),
    'a decimal value': toBase64Text(change({ value: '30000.0' })),
    'a value of 2^256': toBase64Text(change({ value: (2n ** 256n).toString() })),
    'a value of 79 digits': toBase64Text(change({ value: '30000'.padStart(79, '0') })),
    'no validBefore': toBase64Text(change({ validBefore: undefined })),
    'a short address': toBase64Text(change({ from: X402_PAYER.slice(0, -2) })),
    'a name for an address': toBase64Text(change({ from: 'vitalik.eth' })),
    'a short nonce': toBase64Text(change({ nonce: '0x11' })),
    'a nonce that is no hex': toBase64Text(change({ nonce: `0x${'zz'.repeat(32)}` })),
    'Permit2 for Base': toBase64Text({
      ...sampleX402V2Payment,
      payload: sampleX402Permit2Payment().payload,
    }),
    'an authorization for BSC': toBase64Text({
      ...sampleX402V2Payment,
      accepted: X402_BSC_REQUIREMENT,
    }),
    'a transaction for Base': toBase64Text({
      ...sampleX402V2Payment,
      payload: { transaction: 'AAAA' },
    }),
  }
  t.ok((headers['nine KiB'] ?? '').length > 9 * 1024)
  t.match(headers['mixed alphabet'], /\+.*_|_.*\+/)
  for (const [what, header] of Object.entries(headers)) {
    for (const name of ['payment-signature', 'x-payment']) {
      t.strictSame(
        await paymentProblemOf(readX402RequestHeaders({ [name]: header })),
        [400, 'invalid_payload'],
        `${what} in ${name}`,
      )
    }
  }
})

t.test('the size limit applies to the header, and 8 KiB pass', async (t) => {
  const room = 8192 - toBase64Text({ ...sampleX402V2Payment, more: '' }).length
  const more = 'x'.repeat(Math.floor((room * 3) / 4) - 2)
  const header = toBase64Text({ ...sampleX402V2Payment, more })
  t.ok(header.length > 8180 && header.length <= 8192, String(header.length))
  t.match(await readX402RequestHeaders({ 'payment-signature': header }), { wire: 'v2' })
})

t.test('a mismatch with the offer returns its reason', async (t) => {
  const accepting = (change: object) => ({
    ...sampleX402V2Payment,
    accepted: { ...X402_BASE_REQUIREMENT, ...change },
  })
  const table: [string, unknown, string][] = [
    ['scheme', accepting({ scheme: 'upto' }), 'invalid_exact_evm_scheme'],
    ['scheme of v1', { ...sampleX402V1Payment, scheme: 'upto' }, 'invalid_exact_evm_scheme'],
    ['chain', accepting({ network: 'eip155:1' }), 'invalid_exact_evm_network_mismatch'],
    ['v1 name in v2', accepting({ network: 'base' }), 'invalid_exact_evm_network_mismatch'],
    [
      'chain of v1',
      { ...sampleX402V1Payment, network: 'polygon' },
      'invalid_exact_evm_network_mismatch',
    ],
    [
      'v2 name in v1',
      { ...sampleX402V1Payment, network: 'eip155:8453' },
      'invalid_exact_evm_network_mismatch',
    ],
    [
      'no name',
      { ...sampleX402V1Payment, network: 'constructor' },
      'invalid_exact_evm_network_mismatch',
    ],
    ['amount', accepting({ amount: '1' }), 'no_matching_requirements'],
    ['amount spelled otherwise', accepting({ amount: '030000' }), 'no_matching_requirements'],
    ['token', accepting({ asset: PAYMENT_NETWORKS.bsc.asset }), 'no_matching_requirements'],
    ['recipient', accepting({ payTo: X402_PAYER }), 'no_matching_requirements'],
    [
      'recipient on Solana',
      {
        x402Version: 2,
        accepted: {
          ...X402_SOLANA_REQUIREMENT,
          payTo: X402_SOLANA_REQUIREMENT?.payTo.toLowerCase(),
        },
        payload: sampleX402Payload,
      },
      'no_matching_requirements',
    ],
  ]
  for (const [what, document, reason] of table) {
    t.strictSame(await paymentProblemOf(readSampleX402Payment(document)), [402, reason], what)
  }
})

t.test('a disabled rail accepts no payment', async (t) => {
  const mismatch = [402, 'invalid_exact_evm_network_mismatch']
  const rails = { ...ALL_TEST_RAILS, base: null, bsc: null, tempo: null }
  for (const document of [
    sampleX402V2Payment,
    short,
    sampleX402V1Payment,
    sampleX402Permit2Payment(),
  ]) {
    t.strictSame(await paymentProblemOf(readSampleX402Payment(document, { rails })), mismatch)
  }
  const authorization = 'Payment e30'
  t.strictSame(await paymentProblemOf(readX402RequestHeaders({ authorization }, { rails })), [
    402,
    'invalid-challenge',
  ])
})

t.test(
  'one signature is the same credential in every dialect, and different signatures differ',
  async (t) => {
    const hash = async (document: unknown) => {
      const payment = await readSampleX402Payment(document)
      if (payment === null) throw new Error('there is a header')
      return hashPaymentCredential(payment)
    }
    const expected = createHash('sha256').update(Buffer.alloc(65, 0xab)).digest('hex')
    const shouted = {
      ...sampleX402Payload,
      signature: `0x${SAMPLE_X402_SIGNATURE.slice(2).toUpperCase()}`,
    }
    for (const document of [
      sampleX402V2Payment,
      short,
      sampleX402V1Payment,
      sampleX402Permit2Payment(),
      { ...short, payload: shouted },
    ]) {
      t.equal(await hash(document), expected)
    }
    const other = { ...sampleX402Payload, signature: `0x${'cd'.repeat(65)}` }
    t.not(await hash({ ...sampleX402V2Payment, payload: other }), expected)
  },
)

t.test('a payment is equal after serialization', async (t) => {
  for (const document of [sampleX402V2Payment, sampleX402Permit2Payment()]) {
    const payment = await readSampleX402Payment(document)
    if (payment === null) throw new Error('there is a header')
    t.strictSame(decodeStoredPayment(encodePaymentForStorage(payment)), payment)
  }
})
