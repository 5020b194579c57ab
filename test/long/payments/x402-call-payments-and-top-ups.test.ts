import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import { x402Client, wrapFetchWithPayment } from '@x402/fetch'
import { registerExactEvmScheme } from '@x402/evm/exact/client'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import {
  waitForFinalSettlement,
  assertPaymentsBalance,
  signAuthorizationPayingTreasury,
  encodeBase64Json,
  BASE_USDC_TOKEN,
  HIVE_TRENDING_PATH,
  postPaidCall,
  HIVE_TRENDING_PRICE_ATOMIC,
  decodePaymentResponse,
  settlementIdOfReply,
  paymentSignatureHeader,
  startTestStationWithPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import { DISCOVERY_DOCUMENT_SCHEMAS } from '../../support/discovery/discovery-document-schemas.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

t.test('one 402 contains the payment terms in every dialect', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const { status, headers, body } = await main.ask('POST', HIVE_TRENDING_PATH, { json: {} })
  t.equal(status, 402)
  t.match(headers, {
    'content-type': /^application\/problem\+json/,
    'cache-control': 'no-store',
    'access-control-expose-headers': /PAYMENT-REQUIRED/,
  })
  const entry = {
    scheme: 'exact',
    network: 'eip155:8453',
    amount: '5000',
    asset: BASE_USDC_TOKEN.address,
    payTo: till.treasury,
    maxTimeoutSeconds: 300,
    extra: { name: 'USD Coin', version: '2' },
  }
  t.match(decodePaymentResponse(headers['payment-required']), {
    x402Version: 2,
    resource: { url: `http://gas.test${HIVE_TRENDING_PATH}` },
    accepts: [entry],
  })
  t.match(body, {
    code: 'payment_required',
    error: 'payment_required',
    price_usdc: 0.005,
    x402Version: 1,
    accepts: [{ network: 'base', maxAmountRequired: '5000', payTo: till.treasury }],
    remedy: { action: 'onboard' },
  })
  t.equal(headers['www-authenticate'], undefined, 'a rail that is off is not offered')

  const listed = await main.ask('GET', '/.well-known/x402')
  const items = listed.body['items'] as { resource: string; accepts: object[] }[]
  const ofTool = items.find(({ resource }) => resource === 'http://gas.test/api/t/hive_trending')
  t.match(ofTool?.accepts, [entry], 'crawlers read the terms that a call answers')
  t.strictSame(
    listed.body['resources'],
    items.map(({ resource }) => resource),
  )
  const ajv = new Ajv2020({ allErrors: true })
  const schema = DISCOVERY_DOCUMENT_SCHEMAS['/.well-known/x402'] ?? {}
  t.ok(ajv.validate(schema, listed.body), ajv.errorsText())
  for (const { resource } of items) {
    const { status, headers: sent } = await main.ask('GET', new URL(resource).pathname)
    t.match([status, sent['allow']], [405, /POST/], resource)
  }
})

t.test('the short header of the interface pays, and is settled after the call', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const payer = await till.createPayer(1_000_000n)
  const header = await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)
  const answer = await postPaidCall(main, header)
  t.equal(answer.status, 200, answer.text)
  t.match(answer.body._meta, { cost_usdc: 0.005, rail: 'eip3009', balance_usdc: null })
  t.match(decodePaymentResponse(answer.headers['payment-response']), {
    success: true,
    transaction: '',
    network: 'eip155:8453',
    payer: payer.address.toLowerCase(),
  })
  const settled = await waitForFinalSettlement(main, settlementIdOfReply(answer))
  t.match(settled, { state: 'settled', delivery: 'delivered', price_usdc: 0.005 })
  const receipt = await till.base.client.getTransactionReceipt({
    hash: settled['tx_hash'] as never,
  })
  t.equal(receipt.status, 'success')

  const again = await postPaidCall(main, header)
  t.equal(again.status, 200)
  t.equal(again.text, answer.text, 'the same header and request: the same answer')
  t.equal(again.headers['idempotency-replayed'], 'true')
  t.equal(
    decodePaymentResponse(again.headers['payment-response'])['transaction'],
    settled['tx_hash'],
  )
  const other = await postPaidCall(main, header, { limit: 3 })
  t.match(other, { status: 409, body: { code: 'payment_already_used' } })
  const guest = await main.onboard()
  const stolen = await main.ask('POST', HIVE_TRENDING_PATH, {
    json: {},
    headers: header,
    key: guest.key,
  })
  t.match(stolen, { status: 409, body: { code: 'payment_already_used' } }, 'with another key')
  await assertPaymentsBalance(t, main, till, HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('unmodified clients of x402 pay', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const payer = await till.createPayer(1_000_000n)
  const client = new x402Client()
  registerExactEvmScheme(client, { signer: payer })
  const init = () => ({
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ tool: 'hive_trending' }),
  })
  const v2 = await wrapFetchWithPayment(fetch, client)(`${main.url}/api/refuel`, init())
  t.equal(v2.status, 200)
  t.match(await v2.json(), { _meta: { rail: 'x402' } })
  t.match(decodePaymentResponse(v2.headers.get('payment-response') ?? ''), { success: true })

  const withoutHeader: typeof fetch = async (input, options) => {
    const response = await fetch(input, options)
    const headers = new Headers(response.headers)
    headers.delete('payment-required')
    return new Response(await response.text(), { status: response.status, headers })
  }
  const v1 = await wrapFetchWithPayment(withoutHeader, client)(`${main.url}/api/refuel`, init())
  t.equal(v1.status, 200)
  t.match(decodePaymentResponse(v1.headers.get('x-payment-response') ?? ''), {
    success: true,
    network: 'base',
  })
  await assertPaymentsBalance(t, main, till, 2n * HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('one authorization sent 64 times to two nodes runs once and settles once', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const other = await startInProcessTestStation(t, till.settings, { database: main.database })
  const payer = await till.createPayer(1_000_000n)
  const header = await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC)
  const answers = await Promise.all(
    Array.from({ length: 64 }, (_, at) => postPaidCall(at % 2 === 0 ? main : other, header)),
  )
  const good = answers.filter(({ status }) => status === 200)
  t.ok(good.length >= 1)
  t.equal(new Set(good.map(({ text }) => text)).size, 1, 'one answer')
  for (const { status, body } of answers) {
    // On a busy machine a node may answer too late; then it has charged nothing.
    if (status !== 200)
      t.match(body.code, /^(payment_in_progress|idempotency_in_flight|unavailable)$/)
  }
  const [calls] = await main.sql<{ n: number }[]>`
    select count(*)::int as n from calls where tool = 'hive_trending'`
  t.equal(calls?.n, 1)
  await assertPaymentsBalance(t, main, till, HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('six authorizations over the balance for one pay once', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const payer = await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC)
  const headers = await Promise.all(
    Array.from({ length: 6 }, () =>
      paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC),
    ),
  )
  const answers = await Promise.all(headers.map((header) => postPaidCall(main, header)))
  t.equal(answers.filter(({ status }) => status === 200).length, 1)
  for (const { status, body } of answers) {
    if (status !== 200)
      t.match(
        { status, body },
        { status: 402, body: { code: 'payment_invalid', reason: /insufficient_balance/ } },
      )
  }
  await assertPaymentsBalance(t, main, till, HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('thirty concurrent payments of thirty payers all settle', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const headers = await Promise.all(
    Array.from({ length: 30 }, async () =>
      paymentSignatureHeader(
        await till.createPayer(HIVE_TRENDING_PRICE_ATOMIC),
        till,
        HIVE_TRENDING_PRICE_ATOMIC,
      ),
    ),
  )
  const answers = await Promise.all(headers.map((header) => postPaidCall(main, header)))
  t.strictSame([...new Set(answers.map(({ status }) => status))], [200])
  await assertPaymentsBalance(t, main, till, 30n * HIVE_TRENDING_PRICE_ATOMIC)
})

t.test('an invalid payment is rejected with its reason and changes nothing', async (t) => {
  const { main, till } = await startTestStationWithPaymentChain(t)
  const payer = await till.createPayer(1_000_000n)
  const now = BigInt(Math.floor(Date.now() / 1000))
  const stranger = privateKeyToAccount(generatePrivateKey())
  const forged = async () => {
    const { authorization } = await signAuthorizationPayingTreasury(
      payer,
      till,
      HIVE_TRENDING_PRICE_ATOMIC,
    )
    const { signature } = await signAuthorizationPayingTreasury(
      stranger,
      till,
      HIVE_TRENDING_PRICE_ATOMIC,
    )
    return {
      'payment-signature': encodeBase64Json({
        x402Version: 2,
        payload: { authorization, signature },
      }),
    }
  }
  const cases: [string, Record<string, string>, number, RegExp][] = [
    [
      'underpaid',
      await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC - 1n),
      402,
      /authorization_value_mismatch/,
    ],
    [
      'overpaid',
      await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC + 1n),
      402,
      /authorization_value_mismatch/,
    ],
    [
      'expired',
      await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC, {
        validBefore: now - 1n,
      }),
      402,
      /valid_before/,
    ],
    [
      'too short',
      await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC, {
        validBefore: now + 20n,
      }),
      402,
      /valid_before/,
    ],
    [
      'not yet',
      await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC, {
        validAfter: now + 60n,
      }),
      402,
      /valid_after/,
    ],
    [
      'recipient',
      await paymentSignatureHeader(payer, till, HIVE_TRENDING_PRICE_ATOMIC, {
        to: `0x${'7'.repeat(40)}`,
      }),
      402,
      /recipient_mismatch/,
    ],
    [
      'chain',
      await paymentSignatureHeader(
        payer,
        till,
        HIVE_TRENDING_PRICE_ATOMIC,
        {},
        { ...BASE_USDC_TOKEN, chainId: 1 },
      ),
      402,
      /signature/,
    ],
    [
      'token',
      await paymentSignatureHeader(
        payer,
        till,
        HIVE_TRENDING_PRICE_ATOMIC,
        {},
        { ...BASE_USDC_TOKEN, address: `0x${'8'.repeat(40)}` },
      ),
      402,
      /signature/,
    ],
    [
      'name',
      await paymentSignatureHeader(
        payer,
        till,
        HIVE_TRENDING_PRICE_ATOMIC,
        {},
        { ...BASE_USDC_TOKEN, name: 'USDC' },
      ),
      402,
      /signature/,
    ],
    [
      'version',
      await paymentSignatureHeader(
        payer,
        till,
        HIVE_TRENDING_PRICE_ATOMIC,
        {},
        { ...BASE_USDC_TOKEN, version: '1' },
      ),
      402,
      /signature/,
    ],
    ['forged', await forged(), 402, /signature/],
    [
      'no money',
      await paymentSignatureHeader(stranger, till, HIVE_TRENDING_PRICE_ATOMIC),
      402,
      /insufficient_balance/,
    ],
    ['garbage', { 'payment-signature': '%%%' }, 400, /invalid_payload/],
    [
      'not JSON',
      { 'payment-signature': Buffer.from('hello').toString('base64') },
      400,
      /invalid_payload/,
    ],
    ['9 KiB', { 'payment-signature': 'A'.repeat(9 * 1024) }, 400, /invalid_payload/],
    ['v3', { 'payment-signature': encodeBase64Json({ x402Version: 3 }) }, 400, /invalid_payload/],
  ]
  for (const [name, headers, status, reason] of cases) {
    const answer = await postPaidCall(main, headers)
    t.match(answer, { status, body: { reason } }, `${name}: ${answer.text.slice(0, 300)}`)
    t.equal(answer.headers['payment-required'] !== undefined, status === 402, `${name}: a way out`)
  }
  const [rows] = await main.sql<{ n: number }[]>`select count(*)::int as n from settlements`
  t.equal(rows?.n, 0)
  await assertPaymentsBalance(t, main, till, 0n)
})
