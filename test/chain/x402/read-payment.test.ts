import { createHash } from 'node:crypto'
import t from 'tap'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import {
  hashPaymentCredential,
  decodePayment,
  encodePayment,
  type RequestHeaders,
  type PaymentOffer,
} from '../../../chain/payment.ts'
import { X402_EXACT_PROXY_ADDRESS } from '../../../chain/evm/permit2.ts'
import { readRequestPayment } from '../../../chain/x402/read-payment.ts'
import type { PaymentRails } from '../../../chain/x402/payment-requirements.ts'
import { fromUsdc } from '../../../core/money.ts'
import {
  toBase64Text,
  OFFER_DEADLINE_MS,
  EMPTY_BODY,
  FIXED_NOW_MS,
  sampleOffer,
  paymentProblemOf,
  ALL_TEST_RAILS,
  FIXED_NOW_SECONDS,
  OFFER_TREASURY,
} from '../../support/payments/payment-offers.ts'

const PAYER = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
const SIGNATURE = `0x${'ab'.repeat(65)}`
const [BASE, BSC, SOLANA] = sampleOffer().requirements

const authorization = {
  from: PAYER,
  to: OFFER_TREASURY,
  value: '30000',
  validAfter: '0',
  validBefore: String(FIXED_NOW_SECONDS + 300),
  nonce: `0x${'1F'.repeat(32)}`,
}
const payload = { signature: SIGNATURE, authorization }
const v2 = { x402Version: 2, accepted: BASE, payload }
const short = { x402Version: 2, payload }
const v1 = { x402Version: 1, scheme: 'exact', network: 'base', payload }

const permit2Authorization = {
  from: PAYER,
  permitted: { token: PAYMENT_NETWORKS.bsc.asset, amount: '30000000000000000' },
  spender: X402_EXACT_PROXY_ADDRESS,
  nonce: '007',
  deadline: String(FIXED_NOW_SECONDS + 300),
  witness: { to: OFFER_TREASURY, validAfter: '0' },
}
const permit2 = (change: object = {}) => ({
  x402Version: 2,
  accepted: BSC,
  payload: {
    signature: SIGNATURE,
    permit2Authorization: { ...permit2Authorization, ...change },
  },
})

interface Around {
  readonly offer?: PaymentOffer
  readonly rails?: PaymentRails
  readonly now?: number
}
const read = (
  headers: RequestHeaders,
  { rails = ALL_TEST_RAILS, now = FIXED_NOW_MS, ...rest }: Around = {},
) => readRequestPayment(headers, rest.offer ?? sampleOffer(rails), rails, now, EMPTY_BODY)
const pay = (document: unknown, around?: Around) =>
  read({ 'payment-signature': toBase64Text(document) }, around)

const normal = {
  chain: 'eip155:8453',
  asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913',
  from: PAYER.toLowerCase(),
  to: OFFER_TREASURY.toLowerCase(),
  amount: 30_000n,
  price: fromUsdc(0.03),
  validAfter: 0n,
  validBefore: BigInt(FIXED_NOW_SECONDS + 300),
  nonce: `0x${'1f'.repeat(32)}`,
  identifier: null,
  proof: { kind: 'eip3009', signature: SIGNATURE },
}

t.test('the three dialects of Base become one payment', async (t) => {
  t.strictSame(await pay(v2), { rail: 'x402', wire: 'v2', ...normal })
  t.strictSame(await pay(short), { rail: 'eip3009', wire: 'short', ...normal })
  t.strictSame(await read({ 'x-payment': toBase64Text(v1) }), {
    rail: 'x402',
    wire: 'v1',
    ...normal,
  })
})

t.test('without a payment header there is no payment', async (t) => {
  t.equal(await read({}), null)
  t.equal(await read({ authorization: 'Bearer gas_key' }), null)
})

t.test('payment-signature goes before x-payment, and that before Authorization', async (t) => {
  const both = { 'x-payment': toBase64Text(v1), authorization: 'Payment e30' }
  t.match(await read({ ...both, 'payment-signature': toBase64Text(v2) }), { wire: 'v2' })
  t.match(await read(both), { wire: 'v1' })
  const key = { authorization: 'Bearer gas_key, Payment e30' }
  t.strictSame(await paymentProblemOf(read(key)), [402, 'malformed-credential'])
})

t.test('the alphabet of URLs is read too, padded or not', async (t) => {
  const text = JSON.stringify({ ...short, resource: { url: '???>>>' } })
  const url = Buffer.from(text).toString('base64url')
  t.match(url, /[-_]/)
  t.match(await read({ 'payment-signature': url }), { wire: 'short' })
  const padded = url.padEnd(Math.ceil(url.length / 4) * 4, '=')
  t.match(await read({ 'payment-signature': padded }), { wire: 'short' })
})

t.test('addresses count by their bytes, whatever their case', async (t) => {
  const to = `0x${OFFER_TREASURY.slice(2).toUpperCase()}`
  const wrongChecksum = PAYER.toLowerCase().replace('fd', 'FD')
  const signed = { ...payload, authorization: { ...authorization, to, from: wrongChecksum } }
  const accepted = { ...BASE, payTo: to, asset: BASE?.asset.toLowerCase() }
  t.match(await pay({ x402Version: 2, accepted, payload: signed }), {
    to: OFFER_TREASURY.toLowerCase(),
    from: PAYER.toLowerCase(),
  })
})

t.test('neither resource nor extra nor extensions of the client change what is paid', async (t) => {
  const payment = await pay({
    ...v2,
    accepted: { ...BASE, extra: { name: 'Free Coin', version: '9' }, maxTimeoutSeconds: 1 },
    resource: { url: 'https://gas.example/api/t/cheapest' },
    extensions: { bazaar: { price: '1' } },
  })
  t.strictSame(payment, { rail: 'x402', wire: 'v2', ...normal })
})

t.test('an identifier of the client is kept, a wrong one refused', async (t) => {
  const identified = (id: unknown) =>
    pay({ ...v2, extensions: { 'payment-identifier': { info: { required: false, id } } } })
  t.match(await identified('pay_7d5d747be160e280'), { identifier: 'pay_7d5d747be160e280' })
  for (const id of ['too_short', 'x'.repeat(129), 'pay 7d5d747be160e280', 7, null]) {
    t.strictSame(await paymentProblemOf(identified(id)), [400, 'invalid_payload'], String(id))
  }
})

t.test('what cannot be read is malformed', async (t) => {
  const text = JSON.stringify(v2)
  const change = (fields: object) => ({
    ...v2,
    payload: { ...payload, authorization: { ...authorization, ...fields } },
  })
  const headers: Record<string, string> = {
    empty: '',
    'no base64': '{"x402Version":2}',
    'a character that Buffer drops': toBase64Text(text).replace('e', 'e\u0000'),
    'two headers joined': `${toBase64Text(text)}, ${toBase64Text(text)}`,
    'mixed alphabet': toBase64Text({ ...v2, more: '???>>>' }).replace('/', '_'),
    'padding in the middle': `${toBase64Text(text).slice(0, 40)}=${toBase64Text(text).slice(40)}`,
    'one digit too many': 'A'.repeat(5),
    'wrong padding': `${toBase64Text('{}')}=`,
    'nine KiB': toBase64Text({ ...v2, more: 'x'.repeat(6_912) }),
    'no JSON': toBase64Text('payment'),
    'a list': toBase64Text([v2]),
    'a number': toBase64Text('2'),
    'invalid UTF-8': Buffer.from(JSON.stringify({ ...v2, more: 'ÿ' }), 'latin1').toString('base64'),
    'a byte order mark': toBase64Text(`\uFEFF${text}`),
    'a key twice': toBase64Text(text.replace('{', '{"x402Version":2,')),
    'a key twice inside': toBase64Text(text.replace('"value"', '"value":"1","value"')),
    'a key twice, spelled with an escape': toBase64Text(
      text.replace('"value"', '"v\\u0061lue":"1","value"'),
    ),
    'a prototype': toBase64Text(text.replace('"payload"', '"__proto__":{"x":1},"payload"')),
    'nested too deep': toBase64Text({
      ...v2,
      more: JSON.parse(`${'['.repeat(40)}${']'.repeat(40)}`),
    }),
    'no version': toBase64Text({ payload }),
    'version 3': toBase64Text({ ...v2, x402Version: 3 }),
    'version as text': toBase64Text({ ...v2, x402Version: '2' }),
    'no payload': toBase64Text({ x402Version: 2, accepted: BASE }),
    'accepted is null': toBase64Text({ ...v2, accepted: null }),
    'accepted without an amount': toBase64Text({ ...v2, accepted: { ...BASE, amount: undefined } }),
    'accepted with a number': toBase64Text({ ...v2, accepted: { ...BASE, amount: 30000 } }),
    'v1 without a scheme': toBase64Text({ ...v1, scheme: undefined }),
    'no signature': toBase64Text({ ...v2, payload: { authorization } }),
    'a signature of 64 bytes': toBase64Text({
      ...v2,
      payload: { authorization, signature: `0x${'ab'.repeat(64)}` },
    }),
    'a signature of 2049 bytes': toBase64Text({
      ...short,
      payload: { authorization, signature: `0x${'ab'.repeat(2049)}` },
    }),
    'an odd signature': toBase64Text({
      ...v2,
      payload: { authorization, signature: `${SIGNATURE}a` },
    }),
    'a value as a number': toBase64Text(change({ value: 30000 })),
    'a value in hex': toBase64Text(change({ value: '0x7530' })),
    'a negative value': toBase64Text(change({ value: '-30000' })),
    'a decimal value': toBase64Text(change({ value: '30000.0' })),
    'a value of 2^256': toBase64Text(change({ value: (2n ** 256n).toString() })),
    'a value of 79 digits': toBase64Text(change({ value: '30000'.padStart(79, '0') })),
    'no validBefore': toBase64Text(change({ validBefore: undefined })),
    'a short address': toBase64Text(change({ from: PAYER.slice(0, -2) })),
    'a name for an address': toBase64Text(change({ from: 'vitalik.eth' })),
    'a short nonce': toBase64Text(change({ nonce: '0x11' })),
    'a nonce that is no hex': toBase64Text(change({ nonce: `0x${'zz'.repeat(32)}` })),
    'Permit2 for Base': toBase64Text({ ...v2, payload: permit2().payload }),
    'an authorization for BSC': toBase64Text({ ...v2, accepted: BSC }),
    'a transaction for Base': toBase64Text({ ...v2, payload: { transaction: 'AAAA' } }),
  }
  t.ok((headers['nine KiB'] ?? '').length > 9 * 1024)
  t.match(headers['mixed alphabet'], /\+.*_|_.*\+/)
  for (const [what, header] of Object.entries(headers)) {
    for (const name of ['payment-signature', 'x-payment']) {
      t.strictSame(
        await paymentProblemOf(read({ [name]: header })),
        [400, 'invalid_payload'],
        `${what} in ${name}`,
      )
    }
  }
})

t.test('the size is that of the header, and 8 KiB pass', async (t) => {
  const room = 8192 - toBase64Text({ ...v2, more: '' }).length
  const more = 'x'.repeat(Math.floor((room * 3) / 4) - 2)
  const header = toBase64Text({ ...v2, more })
  t.ok(header.length > 8180 && header.length <= 8192, String(header.length))
  t.match(await read({ 'payment-signature': header }), { wire: 'v2' })
})

t.test('what does not match the offer names the reason', async (t) => {
  const accepting = (change: object) => ({ ...v2, accepted: { ...BASE, ...change } })
  const table: [string, unknown, string][] = [
    ['scheme', accepting({ scheme: 'upto' }), 'invalid_exact_evm_scheme'],
    ['scheme of v1', { ...v1, scheme: 'upto' }, 'invalid_exact_evm_scheme'],
    ['chain', accepting({ network: 'eip155:1' }), 'invalid_exact_evm_network_mismatch'],
    ['v1 name in v2', accepting({ network: 'base' }), 'invalid_exact_evm_network_mismatch'],
    ['chain of v1', { ...v1, network: 'polygon' }, 'invalid_exact_evm_network_mismatch'],
    ['v2 name in v1', { ...v1, network: 'eip155:8453' }, 'invalid_exact_evm_network_mismatch'],
    ['no name', { ...v1, network: 'constructor' }, 'invalid_exact_evm_network_mismatch'],
    ['amount', accepting({ amount: '1' }), 'no_matching_requirements'],
    ['amount spelled otherwise', accepting({ amount: '030000' }), 'no_matching_requirements'],
    ['token', accepting({ asset: PAYMENT_NETWORKS.bsc.asset }), 'no_matching_requirements'],
    ['recipient', accepting({ payTo: PAYER }), 'no_matching_requirements'],
    [
      'recipient on Solana',
      { x402Version: 2, accepted: { ...SOLANA, payTo: SOLANA?.payTo.toLowerCase() }, payload },
      'no_matching_requirements',
    ],
  ]
  for (const [what, document, reason] of table) {
    t.strictSame(await paymentProblemOf(pay(document)), [402, reason], what)
  }
})

t.test('a rail that is off takes no payment', async (t) => {
  const mismatch = [402, 'invalid_exact_evm_network_mismatch']
  const rails = { ...ALL_TEST_RAILS, base: null, bsc: null, tempo: null }
  for (const document of [v2, short, v1, permit2()]) {
    t.strictSame(await paymentProblemOf(pay(document, { rails })), mismatch)
  }
  const authorization = 'Payment e30'
  t.strictSame(await paymentProblemOf(read({ authorization }, { rails })), [
    402,
    'invalid-challenge',
  ])
})

t.test('recipient, amount and times of an authorization', async (t) => {
  const name = (part: string) => `invalid_exact_evm_${part}`
  const earliest = FIXED_NOW_SECONDS + OFFER_DEADLINE_MS / 1000 + 45
  const table: [string, object, string | null][] = [
    ['recipient', { to: PAYER }, name('recipient_mismatch')],
    ['underpaid', { value: '29999' }, name('payload_authorization_value_mismatch')],
    ['overpaid', { value: '30001' }, name('payload_authorization_value_mismatch')],
    ['nothing', { value: '0' }, name('payload_authorization_value_mismatch')],
    ['leading zeros', { value: '00030000' }, null],
    [
      'valid from now',
      { validAfter: `${FIXED_NOW_SECONDS}` },
      name('payload_authorization_valid_after'),
    ],
    ['valid since a second', { validAfter: `${FIXED_NOW_SECONDS - 1}` }, null],
    [
      'valid later',
      { validAfter: `${FIXED_NOW_SECONDS + 9}` },
      name('payload_authorization_valid_after'),
    ],
    [
      'expired',
      { validBefore: `${FIXED_NOW_SECONDS - 1}` },
      name('payload_authorization_valid_before'),
    ],
    [
      'ends too early',
      { validBefore: `${earliest - 1}` },
      name('payload_authorization_valid_before'),
    ],
    ['ends in time', { validBefore: `${earliest}` }, null],
    ['ends in an hour', { validBefore: `${FIXED_NOW_SECONDS + 3600}` }, null],
    [
      'ends too late',
      { validBefore: `${FIXED_NOW_SECONDS + 3601}` },
      name('payload_authorization_valid_before'),
    ],
  ]
  for (const [what, change, reason] of table) {
    const signed = { ...payload, authorization: { ...authorization, ...change } }
    for (const document of [
      { ...v2, payload: signed },
      { ...v1, payload: signed },
    ]) {
      if (reason === null) t.match(await pay(document), { amount: 30_000n }, what)
      else t.strictSame(await paymentProblemOf(pay(document)), [402, reason], what)
    }
  }
})

t.test('a fraction of a second counts against the payer', async (t) => {
  const end = FIXED_NOW_SECONDS + OFFER_DEADLINE_MS / 1000 + 45
  const signed = { ...payload, authorization: { ...authorization, validBefore: `${end}` } }
  const late = { now: FIXED_NOW_MS + 1 }
  t.strictSame(await paymentProblemOf(pay({ ...v2, payload: signed }, late)), [
    402,
    'invalid_exact_evm_payload_authorization_valid_before',
  ])
})

t.test('Permit2 on BSC counts in 18 decimals', async (t) => {
  t.strictSame(await pay(permit2()), {
    ...normal,
    rail: 'x402',
    wire: 'v2',
    chain: 'eip155:56',
    asset: '0x8ac76a51cc950d9822d68b83fe1ad97b32cd580d',
    amount: 30_000n * 10n ** 12n,
    nonce: '7',
    proof: {
      kind: 'permit2',
      signature: SIGNATURE,
      spender: X402_EXACT_PROXY_ADDRESS.toLowerCase(),
      deadline: BigInt(FIXED_NOW_SECONDS + 300),
    },
  })
  t.match(
    await pay({
      ...permit2(),
      accepted: undefined,
      x402Version: 1,
      scheme: 'exact',
      network: 'bsc',
    }),
    {
      wire: 'v1',
      chain: 'eip155:56',
    },
  )
  const { permitted, witness } = permit2Authorization
  const table: [object, string][] = [
    [{ spender: PAYER }, 'invalid_permit2_spender'],
    [{ witness: { ...witness, to: PAYER } }, 'invalid_permit2_recipient_mismatch'],
    [{ permitted: { ...permitted, amount: '30000' } }, 'permit2_amount_mismatch'],
    [{ permitted: { ...permitted, token: PAYMENT_NETWORKS.base.asset } }, 'permit2_token_mismatch'],
    [{ deadline: `${FIXED_NOW_SECONDS + 60}` }, 'permit2_deadline_expired'],
    [{ deadline: `${FIXED_NOW_SECONDS + 3601}` }, 'permit2_deadline_expired'],
    [{ witness: { ...witness, validAfter: `${FIXED_NOW_SECONDS}` } }, 'permit2_not_yet_valid'],
  ]
  for (const [change, reason] of table) {
    t.strictSame(await paymentProblemOf(pay(permit2(change))), [402, reason])
  }
  t.strictSame(await paymentProblemOf(pay(permit2({ nonce: '0x07' }))), [400, 'invalid_payload'])
})

t.test('one signature is one credential in every dialect, and another is another', async (t) => {
  const hash = async (document: unknown) => {
    const payment = await pay(document)
    if (payment === null) throw new Error('there is a header')
    return hashPaymentCredential(payment)
  }
  const expected = createHash('sha256').update(Buffer.alloc(65, 0xab)).digest('hex')
  const shouted = { ...payload, signature: `0x${SIGNATURE.slice(2).toUpperCase()}` }
  for (const document of [v2, short, v1, permit2(), { ...short, payload: shouted }]) {
    t.equal(await hash(document), expected)
  }
  const other = { ...payload, signature: `0x${'cd'.repeat(65)}` }
  t.not(await hash({ ...v2, payload: other }), expected)
})

t.test('a payment survives being text', async (t) => {
  for (const document of [v2, permit2()]) {
    const payment = await pay(document)
    if (payment === null) throw new Error('there is a header')
    t.strictSame(decodePayment(encodePayment(payment)), payment)
  }
})
