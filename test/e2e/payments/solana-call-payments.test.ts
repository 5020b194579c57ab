import t from 'tap'
import { x402Client, wrapFetchWithPayment, type SchemeNetworkClient } from '@x402/fetch'
import { MINUTE, createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { resolveSolanaSettlementByOperator } from '../../../app/cli/operator/cli-resolve-settlements.ts'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import {
  SOLANA_FEE_PAYER,
  createSignedSolanaTransfer,
  startTestFacilitator,
} from '../../support/chain/test-solana-facilitator.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import {
  waitForFinalSettlement,
  encodeBase64Json,
  HIVE_TRENDING_PATH,
  postPaidCall,
  decodePaymentResponse,
  settlementIdOfReply,
} from '../../support/payments/test-station-with-payment-chain.ts'
import { requestUntilReplyMatches } from '../../support/payments/deposit-wallet-and-scanner-test-fixtures.ts'

const PAY_TO = '2wKupLR9q6wXYppw8Gr2NvWxKBUqm4PPJKkQfoxHDBg4'
const { caip2, asset } = PAYMENT_NETWORKS.solana

const facilitator = await startTestFacilitator(t)
const clock = createDatabaseAdjustedClock()
const main = await startInProcessTestStation(
  t,
  {
    X402_FACILITATOR_URL: facilitator.url,
    TREASURY_ADDRESS_SOLANA: PAY_TO,
    FREE_TIER_PER_DAY: '0',
  },
  { clock },
)

const offered = async (): Promise<Record<string, unknown> | undefined> => {
  const { headers } = await postPaidCall(main, {})
  const required = headers['payment-required']
  if (required === undefined) return undefined
  const { accepts } = decodePaymentResponse(required) as unknown as {
    accepts: Record<string, unknown>[]
  }
  return accepts.find(({ network }) => network === caip2)
}

/** The header of the client: the offered entry and the signature of its wallet. */
async function header(): Promise<Record<string, string>> {
  const accepted = await offered()
  const payload = { transaction: createSignedSolanaTransfer() }
  const resource = { url: `http://gas.test${HIVE_TRENDING_PATH}` }
  return { 'payment-signature': encodeBase64Json({ x402Version: 2, resource, accepted, payload }) }
}

const stateOf = async (station: InProcessStation): Promise<{ id: string; money: string }> => {
  const [row] = await station.sql<{ id: string; money: string }[]>`
    select id, state->'value'->>'money' as money from actors where kind = 'settlement'
     order by state->'context'->>'claimedAt' desc limit 1`
  return row ?? { id: '', money: 'none' }
}

/** Asserts that the facilitator moved the amount in the ledger, and that gas verify finds no difference. */
async function exact(price = 5_000n): Promise<void> {
  const [row] = await main.sql<{ sum: bigint }[]>`
    select coalesce(sum(amount_micros), 0)::bigint as sum from transfers
     where debit = 'world:solana'`
  t.equal(row?.sum, BigInt(facilitator.moved.size) * price)
  await main.verify()
}

t.test('an unmodified client gets an offer for Solana and pays for a call with it', async (t) => {
  t.match(await offered(), {
    scheme: 'exact',
    network: caip2,
    amount: '5000',
    asset,
    payTo: PAY_TO,
    extra: { feePayer: SOLANA_FEE_PAYER },
  })
  const { body } = await postPaidCall(main, {})
  t.match(body, { x402Version: 1, accepts: [{ network: 'solana', maxAmountRequired: '5000' }] })

  // Which assets are usual is known to the package of Solana, which is not installed here.
  // Of the rest only the wallet is ours: choosing, wording and sending are the client's own.
  const wallet: SchemeNetworkClient = {
    scheme: 'exact',
    createPaymentPayload: async (x402Version) => ({
      x402Version,
      payload: { transaction: createSignedSolanaTransfer() },
    }),
  }
  const client = x402Client.fromConfig({
    schemes: [{ network: caip2, client: wallet }],
    spendControls: { allowedAssets: [{ network: caip2, asset }] },
  })
  let sent = ''
  const listening: typeof fetch = (input, init) => {
    sent = new Headers((input as Request).headers).get('payment-signature') ?? sent
    return fetch(input, init)
  }
  const paying = wrapFetchWithPayment(listening, client)
  const answer = await paying(`${main.url}${HIVE_TRENDING_PATH}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  })
  const text = await answer.text()
  t.equal(answer.status, 200, text)
  t.match(JSON.parse(text), { _meta: { rail: 'x402', cost_usdc: 0.005 } })
  const told = decodePaymentResponse(answer.headers.get('payment-response') ?? '')
  t.match(told, { success: true, network: caip2, transaction: [...facilitator.moved.values()][0] })
  const seen = await main.ask('GET', `/api/x402/settlements/${told['settlement_id']}`)
  t.match(seen.body, { state: 'settled', delivery: 'delivered', tx_hash: told['transaction'] })

  const again = await postPaidCall(main, { 'payment-signature': sent })
  t.match(again, { status: 200, text, headers: { 'idempotency-replayed': 'true' } })
  const other = await postPaidCall(main, { 'payment-signature': sent }, { limit: 3 })
  t.match(other, { status: 409, body: { code: 'payment_already_used' } })
  t.equal(facilitator.asked(), 1)
  await exact()
})

t.test('an unverified payment, or one of another payer, is not claimed', async (t) => {
  const before = facilitator.asked()
  for (const [says, reason] of [
    [{ isValid: false, invalidReason: 'insufficient_funds' }, 'insufficient_funds'],
    [{ isValid: true, payer: SOLANA_FEE_PAYER }, 'invalid_payload'],
  ] as const) {
    facilitator.judges(says)
    t.match(await postPaidCall(main, await header()), { status: 402, body: { reason } })
  }
  facilitator.judges({ isValid: true })
  t.equal(facilitator.asked(), before)
  await exact()
})

t.test(
  'no failure after the request to the facilitator leads to a second payment request',
  async (t) => {
    const troubles = [
      ['an error of the server', 'broken'],
      ['garbage', 'garbage'],
      ['an answer that is lost', 'unanswered'],
      ['a failure that may have been sent', { refuses: 'transaction_failed', moves: true }],
      ['an unknown name', { refuses: 'no_idea', moves: true }],
    ] as const
    for (const [what, fate] of troubles) {
      // The repetition gets "known" from the facilitator, and then the outcome.
      facilitator.decide([fate, { refuses: 'duplicate_settlement' }])
      const paid = await header()
      const answer = await postPaidCall(main, paid)
      t.equal(answer.status, 200, `${what}: ${answer.text}`)
      t.match(
        await waitForFinalSettlement(main, settlementIdOfReply(answer)),
        { state: 'settled' },
        what,
      )
      t.equal((await postPaidCall(main, paid)).text, answer.text, `${what}: it is repeated`)
    }
    await exact()
  },
)

t.test('an open payment is reported to every request with the same header', async (t) => {
  facilitator.decide(['held'])
  const paid = await header()
  const first = postPaidCall(main, paid)
  const { id } = await requestUntilReplyMatches(
    () => stateOf(main),
    ({ money }) => money === 'submitted',
  )
  const meanwhile = await postPaidCall(main, paid)
  t.match(meanwhile, { status: 503, body: { code: 'settlement_unknown', settlement_id: id } })
  t.equal(meanwhile.headers['payment-required'], undefined, 'and not asked to pay')
  facilitator.letGo()
  t.equal((await first).status, 200)
  t.equal((await postPaidCall(main, paid)).status, 200)
  await exact()
})

t.test('an unsent transaction is lost at once, and a new one pays', async (t) => {
  facilitator.decide([{ refuses: 'invalid_exact_svm_payload_transaction_amount_mismatch' }])
  const paid = await header()
  const refused = await postPaidCall(main, paid)
  t.match(refused, { status: 402, body: { code: 'payment_invalid', reason: 'settlement_failed' } })
  t.ok(refused.headers['payment-required'], 'with what to pay')
  t.match(await stateOf(main), { money: 'lost' })
  t.equal((await postPaidCall(main, await header())).status, 200)
  await exact()
})

t.test('a payment that may have been sent stays open until the operator ends it', async (t) => {
  facilitator.decide([], { refuses: 'transaction_failed' })
  const paid = await header()
  const first = postPaidCall(main, paid)
  const { id } = await requestUntilReplyMatches(
    () => stateOf(main),
    ({ money }) => money === 'unknown',
  )
  t.match(await postPaidCall(main, paid), { status: 503, body: { code: 'settlement_unknown' } })
  clock.adjust(7 * MINUTE)
  t.match(
    await postPaidCall(main, paid),
    { status: 503, body: { settlement_id: id } },
    'after its time',
  )
  t.equal(
    await resolveSolanaSettlementByOperator(main.sql, `${id}0`, null),
    1,
    'no such settlement',
  )
  t.equal(await resolveSolanaSettlementByOperator(main.sql, id, 'not-a-name'), 1)
  t.equal(
    await resolveSolanaSettlementByOperator(main.sql, id, [...facilitator.moved.values()][0] ?? ''),
    1,
    'taken',
  )
  t.equal(await resolveSolanaSettlementByOperator(main.sql, id, null), 0)
  t.match(await waitForFinalSettlement(main, id), { state: 'lost', delivery: 'waiting' })
  t.match(await first, { status: 402, body: { reason: 'settlement_failed' } })
  t.equal(await resolveSolanaSettlementByOperator(main.sql, id, null), 1, 'once')

  const second = header().then((one) => postPaidCall(main, one))
  const open = await requestUntilReplyMatches(
    () => stateOf(main),
    ({ money }) => money === 'unknown',
  )
  const named = `5${'K'.repeat(87)}`
  t.equal(await resolveSolanaSettlementByOperator(main.sql, open.id, named), 0)
  t.equal((await second).status, 200)
  t.match(await waitForFinalSettlement(main, open.id), { state: 'settled', tx_hash: named })
  facilitator.moved.set('by hand', named)
  facilitator.decide([])
  await exact()
})

t.test('an unreachable facilitator is not offered; its settled payments are known', async (t) => {
  const [paid, late] = [await header(), await header()]
  const answer = await postPaidCall(main, paid)
  t.equal(answer.status, 200, answer.text)
  facilitator.fail(true)
  for (let times = 0; times < 3; times += 1) {
    t.match(await postPaidCall(main, late), { status: 503, body: { code: 'rail_unavailable' } })
  }
  const asked = await postPaidCall(main, {})
  t.equal(asked.status, 402)
  t.equal(asked.headers['payment-required'], undefined, 'the breaker is open')
  t.equal(asked.body['accepts'], undefined)
  t.match(await postPaidCall(main, late), { status: 503, body: { code: 'rail_disabled' } })
  const again = await postPaidCall(main, paid)
  t.match(again, { status: 200, text: answer.text, headers: { 'idempotency-replayed': 'true' } })
  t.match(await postPaidCall(main, paid, { limit: 2 }), { body: { code: 'payment_already_used' } })
  await exact()
})
