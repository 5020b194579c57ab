import t from 'tap'
import { summarizeX402Message } from '../../../chain/x402/summarize-x402-message.ts'
import x402Parse from '../../../tools/finance/x402-parse.ts'
import {
  createRecordingToolContext,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64')
const USDC = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
const TREASURY = '0x00000000000000000000000000000000000beef1'
const PAYER = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
const URL_ = 'https://example.com/api/t/agent_see'

const accept = {
  scheme: 'exact',
  network: 'eip155:8453',
  amount: '30000',
  asset: USDC,
  payTo: TREASURY,
  maxTimeoutSeconds: 300,
  extra: { name: 'USD Coin', version: '2' },
}
const { amount: _, ...rest } = accept
const acceptV1 = {
  ...rest,
  network: 'base',
  maxAmountRequired: '30000',
  resource: URL_,
  description: '',
  mimeType: '',
}
const authorization = {
  from: PAYER,
  to: TREASURY,
  value: '30000',
  validAfter: '0',
  validBefore: '2000000000',
  nonce: `0x${'11'.repeat(32)}`,
}
const signature = `0x${'ab'.repeat(65)}`
const v2Payment = {
  x402Version: 2,
  resource: { url: URL_ },
  accepted: accept,
  payload: { signature, authorization },
}
const refusal = (given: Parameters<typeof summarizeX402Message>[0]) =>
  awaitRejectionDetails((async () => summarizeX402Message(given))())

t.test('a 402 of version 2 and one of version 1 give the same result', async (t) => {
  const entry = {
    scheme: 'exact',
    network: 'eip155:8453',
    amount_atomic: '30000',
    amount_usdc: 0.03,
    asset: USDC,
    pay_to: TREASURY,
    resource: URL_,
    max_timeout_seconds: 300,
  }
  const v2 = summarizeX402Message({
    header: base64({ x402Version: 2, resource: { url: URL_ }, accepts: [accept] }),
  })
  t.strictSame(v2, {
    kind: 'payment_required',
    x402_version: 2,
    accepts: [entry],
    payment: null,
    valid: true,
    problems: [],
  })
  const v1 = summarizeX402Message({ body: { x402Version: 1, error: '', accepts: [acceptV1] } })
  t.strictSame(v1, { ...v2, x402_version: 1 })
})

t.test(
  'payments of version 2, of version 1 and in the short form give the same result',
  async (t) => {
    const common = {
      scheme: 'exact',
      network: 'eip155:8453',
      method: 'eip3009',
      from: PAYER,
      to: TREASURY,
      amount_atomic: '30000',
      amount_usdc: 0.03,
      nonce: authorization.nonce,
      valid_after: '0',
      valid_before: '2000000000',
      signature,
    }
    const payload = { signature, authorization }
    t.match(summarizeX402Message({ headers: { 'PAYMENT-SIGNATURE': base64(v2Payment) } }), {
      kind: 'payment',
      x402_version: 2,
      valid: true,
      accepts: [{ pay_to: TREASURY }],
      payment: { ...common, wire: 'v2' },
    })
    t.match(
      summarizeX402Message({
        headers: {
          'X-Payment': base64({ x402Version: 1, scheme: 'exact', network: 'base', payload }),
        },
      }),
      { kind: 'payment', x402_version: 1, valid: true, payment: { ...common, wire: 'v1' } },
    )
    t.match(summarizeX402Message({ header: base64({ x402Version: 2, payload }) }), {
      kind: 'payment',
      x402_version: 2,
      valid: true,
      accepts: [],
      payment: { ...common, wire: 'short' },
    })
  },
)

t.test('Permit2 on BSC uses 18 decimals; a Solana transaction is named as such', async (t) => {
  const token = '0x8AC76a51cc950d9822D68b83fE1Ad97B32Cd580d'
  const bsc = { ...accept, network: 'eip155:56', asset: token, amount: '30000000000000000' }
  const permit2Authorization = {
    from: PAYER,
    permitted: { token, amount: bsc.amount },
    spender: TREASURY,
    nonce: '7',
    deadline: '2000000000',
    witness: { to: TREASURY, validAfter: '0' },
  }
  t.match(
    summarizeX402Message({
      header: base64({ ...v2Payment, accepted: bsc, payload: { signature, permit2Authorization } }),
    }),
    {
      valid: true,
      accepts: [{ amount_usdc: 0.03 }],
      payment: { method: 'permit2', amount_usdc: 0.03, valid_before: '2000000000' },
    },
  )
  const solana = {
    ...accept,
    network: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp',
    asset: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v',
    payTo: '9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM',
  }
  t.match(
    summarizeX402Message({
      header: base64({ ...v2Payment, accepted: solana, payload: { transaction: 'AQID' } }),
    }),
    { valid: true, problems: [], payment: { method: 'transaction', transaction: 'AQID' } },
  )
})

t.test('a settlement reply is recognised', async (t) => {
  const answer = {
    success: false,
    transaction: '',
    network: 'base',
    payer: PAYER,
    errorReason: 'insufficient_funds',
  }
  t.match(summarizeX402Message({ headers: { 'x-payment-response': base64(answer) } }), {
    kind: 'settlement',
    valid: true,
    payment: { success: false, network: 'eip155:8453', error_reason: 'insufficient_funds' },
  })
})

t.test('invalid parts are listed, not rejected', async (t) => {
  const problemsOf = (document: unknown) =>
    summarizeX402Message({ header: base64(document) }).problems
  const paying = (changes: object) =>
    problemsOf({
      ...v2Payment,
      payload: { signature, authorization: { ...authorization, ...changes } },
    })
  t.match(paying({ value: '29999' }), ['the signed amount is not the accepted amount'])
  t.match([...paying({ value: 30000 })].sort(), [
    'payload.authorization.value must be a decimal string below 2^256',
    'the signed amount is not the accepted amount',
  ])
  t.match(paying({ to: PAYER }), ['the signed recipient is not accepted.payTo'])
  t.match(paying({ nonce: '0x11' }), ['payload.authorization.nonce must be 32 bytes of hex'])
  t.match(paying({ validAfter: '2000000000' }), [
    'payload.authorization.validAfter is not before validBefore',
  ])
  t.match(paying({ validBefore: String(2n ** 256n) }), [/validBefore must be a decimal/])
  t.match(problemsOf({ x402Version: 3, accepts: [] }), [
    'x402Version must be 1 or 2',
    'accepts is empty',
  ])
  t.match(problemsOf({ x402Version: 1, accepts: [7] }), [/must be an object/, /network is missing/])
  t.match(problemsOf({ x402Version: 1, accepts: [{ ...acceptV1, network: 'ftx' }] }), [
    'accepts[0].network is not a known network',
  ])
  t.match(problemsOf({ x402Version: 2, accepts: [accept] }), ['resource.url is missing'])
  t.match(problemsOf({ payload: {} }), ['x402Version is missing', /signature/, /neither/])
  t.match(summarizeX402Message({ body: { x402Version: 1, accepts: Array(60).fill(acceptV1) } }), {
    valid: false,
    accepts: { length: 50 },
  })
  t.equal(
    summarizeX402Message({ body: { x402Version: 1, accepts: [{ ...acceptV1, asset: PAYER }] } })
      .accepts[0]?.amount_usdc,
    null,
  )
})

t.test('unparsable input is rejected with its position', async (t) => {
  t.match(await refusal({ header: 'not base64!' }), {
    code: 'invalid_input',
    errors: [{ pointer: '/header' }],
  })
  t.match(await refusal({ header: base64([1]) }), { errors: [{ pointer: '/header' }] })
  t.match(await refusal({ header: base64({ hello: 1 }) }), {
    errors: [{ detail: /not an x402 document/ }],
  })
  t.match(await refusal({ header: 'A'.repeat(16_385) }), { code: 'invalid_input' })
  t.match(await refusal({ headers: { accept: 'x' } }), { errors: [{ pointer: '/headers' }] })
  t.match(await refusal({ headers: { 'x-payment': '%%%' } }), {
    errors: [{ pointer: '/headers/x-payment' }],
  })
  t.match(await refusal({ body: 'nothing' }), { errors: [{ pointer: '/body' }] })
  t.match(await refusal({ body: '['.repeat(60_000) }), { errors: [{ pointer: '/body' }] })
})

t.test('a header may include its name, a body may be text', async (t) => {
  t.equal(
    summarizeX402Message({ header: `Payment-Signature: ${base64(v2Payment)}` }).kind,
    'payment',
  )
  t.equal(summarizeX402Message({ body: JSON.stringify(v2Payment) }).kind, 'payment')
  t.equal(summarizeX402Message({ headers: { accept: 'x' }, body: v2Payment }).kind, 'payment')
})

t.test('the tool returns the result of the codec and rejects an empty body', async (t) => {
  const { context: given } = createRecordingToolContext({ x402: { parse: summarizeX402Message } })
  t.match(await x402Parse.run({ header: base64(v2Payment) }, given), {
    kind: 'payment',
    valid: true,
  })
  t.match(await awaitRejectionDetails((async () => x402Parse.preflight?.({}, given))()), {
    code: 'invalid_input',
  })
})
