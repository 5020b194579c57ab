import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import type { NormalizedPayment } from '../../../chain/onchain-payment-types.ts'
import {
  createFacilitatorClient,
  FacilitatorUnavailableError,
} from '../../../chain/x402/facilitator-client.ts'
import { samplePaymentOffer } from '../../support/payments/sample-payment-offer.ts'

const asked = { name: 'FacilitatorUnavailableError', requestSent: true }
const unasked = { name: 'FacilitatorUnavailableError', requestSent: false }
const requirement = samplePaymentOffer().requirements[2]
const payment = { proof: { kind: 'solana', transaction: 'AQAB', requirement } } as NormalizedPayment

interface Seen {
  readonly method: string | undefined
  readonly path: string | undefined
  readonly body: string
}

/** A facilitator with scripted replies, and a client with a stopped clock. */
async function facing(t: Test, answer: RequestListener, timeoutMs = 5_000) {
  const seen: Seen[] = []
  const script = { answer }
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      seen.push({ method: request.method, path: request.url, body })
      script.answer(request, response)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const time = { now: 0 }
  const clock = { mono: () => time.now }
  const url = `http://127.0.0.1:${port}`
  return {
    seen,
    script,
    time,
    url,
    client: createFacilitatorClient({ url, send: fetch, clock, timeoutMs }),
  }
}

const json =
  (body: unknown, status = 200): RequestListener =>
  (_request, response) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
const raw =
  (body: string, status = 200): RequestListener =>
  (_request, response) =>
    response.writeHead(status).end(body)

const settled = { success: true, transaction: '5xyz', network: 'solana:x', payer: 'Payer' }

t.test('sends version 2 requests and parses the replies', async (t) => {
  const { client, seen, script } = await facing(t, json({ isValid: true, payer: 'Payer' }))
  t.strictSame(await client.verify(payment), { isValid: true, invalidReason: null, payer: 'Payer' })
  script.answer = json(settled)
  t.strictSame(await client.settle(payment), {
    success: true,
    transaction: '5xyz',
    neverSent: false,
    errorReason: null,
    payer: 'Payer',
  })
  t.strictSame(
    seen.map(({ method, path }) => `${method} ${path}`),
    ['POST /verify', 'POST /settle'],
  )
  for (const { body } of seen) {
    t.strictSame(JSON.parse(body), {
      x402Version: 2,
      paymentPayload: {
        x402Version: 2,
        accepted: requirement,
        payload: { transaction: 'AQAB' },
      },
      paymentRequirements: requirement,
    })
  }
})

t.test('lists the supported kinds and the fee payers', async (t) => {
  const kinds = [
    { x402Version: 2, scheme: 'exact', network: 'solana:x', extra: { feePayer: 'Fee' } },
    { x402Version: 1, scheme: 'exact', network: 'base' },
    { scheme: 'exact' },
    null,
  ]
  const { client, seen } = await facing(t, json({ kinds, extensions: [], signers: {} }))
  t.strictSame(await client.supported(), [
    { version: 2, scheme: 'exact', network: 'solana:x', feePayer: 'Fee' },
    { version: 1, scheme: 'exact', network: 'base', feePayer: null },
  ])
  t.match(seen, [{ method: 'GET', path: '/supported' }])
})

t.test('a rejection with any status below 500 is a reply', async (t) => {
  const { client, script } = await facing(t, json({ isValid: false, invalidReason: 'bad' }))
  for (const status of [200, 400, 402, 422]) {
    script.answer = json({ isValid: false, invalidReason: 'bad' }, status)
    t.strictSame(await client.verify(payment), {
      isValid: false,
      invalidReason: 'bad',
      payer: null,
    })
    script.answer = json({ success: false, errorReason: 'expired', transaction: '' }, status)
    t.match(await client.settle(payment), {
      success: false,
      errorReason: 'expired',
      transaction: '',
    })
  }
  t.equal(client.available(), true)
})

t.test('only pre-flight checks report that nothing was sent', async (t) => {
  const { client, script } = await facing(t, json({}))
  const asked = async (errorReason: string | undefined, transaction = '') => {
    script.answer = json({ success: false, errorReason, transaction }, 402)
    return (await client.settle(payment)).neverSent
  }
  for (const reason of [
    'invalid_exact_svm_payload_transaction_amount_mismatch',
    'invalid_payment_requirements',
    'transaction_simulation_failed',
    'insufficient_funds',
  ]) {
    t.equal(await asked(reason), true, reason)
    t.equal(await asked(reason, '5xyz'), false, `${reason}, and yet a transaction`)
  }
  for (const reason of [
    undefined,
    'transaction_failed',
    'duplicate_settlement',
    'invalid_transaction_state',
    'settle_exact_svm_transaction_confirmation_timed_out',
    'settle_exact_svm_block_height_exceeded',
    'unexpected_settle_error',
    'something_new',
  ])
    t.equal(await asked(reason), false, String(reason))
})

const silent: RequestListener = () => {}
const useless: [string, RequestListener][] = [
  ['status 500', raw('oops', 500)],
  ['status 503 with the form of a refusal', json({ success: false, isValid: false }, 503)],
  ['no JSON', raw('<html>')],
  ['nothing', raw('')],
  ['another form', json({ ok: true })],
  ['null', json(null)],
  ['a success as text', json({ success: 'true', isValid: 'true', transaction: '5x' })],
  ['too much', raw(`{"success":true,"isValid":true,"transaction":"${'x'.repeat(70_000)}"}`)],
  ['a connection that breaks', (_request, response) => response.destroy()],
  [
    'half an answer',
    (_request, response) => {
      response.writeHead(200, { 'content-length': '500' })
      response.write('{"success":true', () => response.destroy())
    },
  ],
]

for (const [what, answer] of useless) {
  t.test(`${what} is not a valid reply`, async (t) => {
    const { client } = await facing(t, answer)
    for (const ask of [client.settle, client.verify]) {
      const error = await ask(payment).catch((thrown: unknown) => thrown)
      t.type(error, FacilitatorUnavailableError)
      t.match(error, asked)
    }
  })
}

t.test('a success without a transaction is not a valid reply', async (t) => {
  const { client } = await facing(t, json({ ...settled, transaction: '' }))
  await t.rejects(client.settle(payment), asked)
})

t.test('waits for the reply and its body no longer than the deadline', async (t) => {
  const { client, script } = await facing(t, silent, 50)
  await t.rejects(client.settle(payment), asked)
  script.answer = (_request, response) => response.writeHead(200).write('{')
  await t.rejects(client.settle(payment), asked)
})

t.test('follows no redirect', async (t) => {
  const elsewhere = await facing(t, json(settled))
  const { client } = await facing(t, (_request, response) =>
    response.writeHead(307, { location: `${elsewhere.url}/settle` }).end(),
  )
  await t.rejects(client.settle(payment), { name: 'FacilitatorUnavailableError' })
  t.strictSame(elsewhere.seen, [])
})

t.test('is not called after three consecutive failures, then tried with one request', async (t) => {
  const { client, seen, script, time } = await facing(t, raw('', 500))
  await t.rejects(client.verify(payment))
  script.answer = json({ isValid: true })
  await client.verify(payment)
  script.answer = raw('', 500)
  for (let failures = 0; failures < 3; failures++) {
    t.equal(client.available(), true)
    await t.rejects(client.settle(payment), asked)
  }
  t.equal(client.available(), false)
  const before = seen.length
  await t.rejects(client.settle(payment), unasked)
  t.equal(seen.length, before)

  time.now += 10_000
  t.equal(client.available(), true)
  const trial = client.verify(payment)
  t.equal(client.available(), false, 'one at a time')
  await t.rejects(client.verify(payment), unasked)
  await t.rejects(trial, asked)
  t.equal(client.available(), false, 'the rest starts again')

  time.now += 10_000
  script.answer = json({ isValid: true })
  await client.verify(payment)
  t.equal(client.available(), true)
  script.answer = raw('', 500)
  await t.rejects(client.verify(payment), asked)
  t.equal(client.available(), true, 'and counts from the start')
})

t.test('settles nothing but Solana', async (t) => {
  const { client, seen } = await facing(t, json(settled))
  const other = { proof: { kind: 'eip3009' } } as NormalizedPayment
  await t.rejects(client.settle(other), /settles no eip3009/)
  t.strictSame(seen, [])
  t.equal(client.available(), true)
})
