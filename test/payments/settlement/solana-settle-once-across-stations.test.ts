import { json } from 'node:stream/consumers'
import t from 'tap'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { createFacilitatorClient } from '../../../chain/x402/facilitator-client.ts'
import { SECOND } from '../../../core/clock.ts'
import { createSettler } from '../../../payments/settlement/settler.ts'
import { createSettlementQueries } from '../../../persistence/payments/settlement-queries.ts'
import { createSettlerTransactionStore } from '../../../persistence/payments/settler-transaction-store.ts'
import { samplePaymentOffer } from '../../support/payments/sample-payment-offer.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import { assertNoInvariantViolations } from '../../support/actors/test-actor-node-pairs.ts'
import {
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  samplePayment,
  PAYMENT_TIMER_COMMANDS,
} from '../../support/payments/sample-payment-claims.ts'
import { toSettlementId } from '../../../payments/commands/payment-claim-commands.ts'
import { createTestActorNode } from '../../support/actors/test-actor-node.ts'
import { startFixtureServer } from '../../support/upstreams/fixture-server.ts'
import { createOffsetClock, pollUntilTrue } from '../../support/payments/settler-scenario.ts'

const network = PAYMENT_NETWORKS.solana.caip2
/** Reply of a facilitator whose other server has sent the transaction in the meantime. */
const REFUSED = {
  success: false,
  errorReason: 'transaction_simulation_failed',
  transaction: '',
  network,
}
const SENT_LATER = { success: true, transaction: '5later', network }
const SENT = { success: true, transaction: '5sent', network }

t.test('Solana: a settle request of one node is not repeated by another', async (t) => {
  const asked: ((answer: object) => void)[] = []
  const { base: url } = await startFixtureServer(t, (request, response) => {
    void json(request).then(() => asked.push((answer) => response.end(JSON.stringify(answer))))
  })
  const { sql } = await createTestDatabase(t)
  const clock = createOffsetClock()
  const store = createSettlementQueries(sql)
  const nodes = [1, 2].map(() => {
    const actors = createTestActorNode(t, sql, { clock, timerCommands: PAYMENT_TIMER_COMMANDS })
    const facilitator = createFacilitatorClient({ url, send: fetch, clock })
    const off = { base: null, bsc: null, tempo: null, sweepMs: null }
    const rest = {
      actors,
      store,
      clock,
      transactions: createSettlerTransactionStore(sql),
      facilitator,
      log: () => {},
    }
    const made = createSettler({ ...rest, ...off })
    t.teardown(() => made.close())
    return { actors, settler: made }
  })
  const [one, two] = nodes as [(typeof nodes)[number], (typeof nodes)[number]]
  const [, , requirement] = samplePaymentOffer().requirements
  if (requirement === undefined) throw new Error('Solana is not offered')
  const { asset } = PAYMENT_NETWORKS.solana
  const proof = { kind: 'solana', transaction: 'AQAB', requirement } as const
  const payment = samplePayment(0.03, { chain: network, asset, from: 'Payer', proof })
  const id = toSettlementId(payment)
  const settleFirst = { chain: 'solana', mode: 'first', balance: null, balanceBlock: 0n } as const
  await claimPaymentOnTestNode(one.actors, samplePaymentClaimInput(payment, settleFirst))

  const first = one.settler.settled(id, 60_000)
  await pollUntilTrue(async () => asked.length === 1)
  const second = two.settler.settled(id, 1_000)
  t.equal(await second, 'pending')
  t.equal(asked.length, 1)
  asked[0]?.(asked.length > 1 ? REFUSED : SENT)
  t.equal(await first, 'settled')

  const other = { ...payment, nonce: `${payment.nonce}0` }
  const left = toSettlementId(other)
  await claimPaymentOnTestNode(one.actors, samplePaymentClaimInput(other, settleFirst))
  const never = one.settler.settled(left, 60_000)
  await pollUntilTrue(async () => asked.length === 2)
  t.equal(await two.settler.settled(left, 500), 'pending')
  clock.pass(20 * SECOND)
  const last = two.settler.settled(left, 60_000)
  await pollUntilTrue(async () => asked.length === 3)
  asked[2]?.(SENT_LATER)
  t.equal(await last, 'settled', 'after the time of the first request')
  asked[1]?.(REFUSED)
  t.equal(await never, 'settled')
  await assertNoInvariantViolations(t, sql)
})
