import t, { type Test } from 'tap'
import { expirePaymentClaimCommand } from '../../payments/commands/payment-claim-commands.ts'
import {
  deliverPaidCallsCommand,
  releaseFailedCallPaymentCommand,
  toSettlementId,
  type PaymentClaimInput,
} from '../../payments/commands/payment-claim-commands.ts'
import { decodeWithheldAnswer } from '../../payments/keyless-caller-paid-answer.ts'
import {
  recordPaymentLostCommand,
  recordPaymentSettledCommand,
  recordPaymentOutcomeUnknownCommand,
} from '../../payments/commands/settlement-commands.ts'
import { createSettlementQueries } from '../../persistence/payments/settlement-queries.ts'
import { fromUsdc } from '../../core/money.ts'
import {
  createTestActorNodePair,
  assertNoInvariantViolations,
} from '../support/actors/test-actor-node-pairs.ts'
import { awaitErrorCodeOrOk, type TestActorNode } from '../support/actors/test-actor-node.ts'
import {
  runSettlementCommand,
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  sampleFailedPaidCallOutcome,
  samplePaidCallOutcome,
  samplePayment,
  PAYMENT_TIMER_COMMANDS,
} from '../support/payments/sample-payment-claims.ts'
import {
  readSettlementState,
  readLedgerBalance,
  readPayerMachineState,
} from '../support/payments/settlement-and-payer-state-readers.ts'

/** Payments whose answer is kept until they have settled. Each step runs on a node that knows only the database. */

async function start(t: Test) {
  const { sql, one, two } = await createTestActorNodePair(t, {
    timerCommands: PAYMENT_TIMER_COMMANDS,
  })
  const builder = await one.born(0)
  const claimed = samplePaymentClaimInput(samplePayment(0.03), { mode: 'withheld' })
  t.match(await claimPaymentOnTestNode(one, claimed), { claim: 'new', mode: 'withheld' })
  const { callId } = claimed
  const shares = [{ to: builder, amount: fromUsdc(0.018), callId }]
  const outcome = { ...samplePaidCallOutcome(claimed), shares }
  const store = createSettlementQueries(sql)
  const calls = async () =>
    (await sql<{ n: number }[]>`select count(*)::int as n from calls where call_id = ${callId}`)[0]
      ?.n
  return {
    ...{ sql, one, two, builder, claimed, outcome, calls },
    state: () => readSettlementState(sql, claimed),
    deliver: (at: TestActorNode) =>
      runSettlementCommand(at, claimed, deliverPaidCallsCommand, outcome),
    expire: (at: TestActorNode) =>
      runSettlementCommand(at, claimed, expirePaymentClaimCommand, { callId }),
    async settle(at: TestActorNode, from: PaymentClaimInput = claimed) {
      const kept = await store.withheldAnswer(toSettlementId(from.payment))
      const answer = kept === null ? null : decodeWithheldAnswer(kept)
      const where = { tx: '0x01', logIndex: 0, block: 101n }
      return runSettlementCommand(at, from, recordPaymentSettledCommand, { ...where, answer })
    },
    async lose(at: TestActorNode) {
      await runSettlementCommand(at, claimed, recordPaymentOutcomeUnknownCommand, {})
      await runSettlementCommand(at, claimed, recordPaymentLostCommand, { lookAt: null })
    },
  }
}

t.test('its node dies before the answer: the claim expires, and nothing was sent', async (t) => {
  const at = await start(t)
  await at.expire(at.two)
  t.equal(await at.state(), 'released/waiting')
  t.equal(await awaitErrorCodeOrOk(at.deliver(at.one)), 'call_settled', 'too late')
  t.equal(await at.calls(), 0)
  const again = { ...at.claimed, callId: samplePaymentClaimInput(samplePayment(1)).callId }
  t.match(await claimPaymentOnTestNode(at.two, again), { claim: 'new' }, 'not used up')
  await assertNoInvariantViolations(t, at.sql)
})

t.test('its node dies after the answer: another one settles, and the call exists', async (t) => {
  const at = await start(t)
  await at.deliver(at.one)
  t.equal(await at.state(), 'due/withheld')
  t.equal(await at.calls(), 0, 'nothing is booked before the money has arrived')
  await assertNoInvariantViolations(t, at.sql)
  const failing = sampleFailedPaidCallOutcome(at.claimed)
  const failed = runSettlementCommand(at.two, at.claimed, releaseFailedCallPaymentCommand, failing)
  t.equal(await awaitErrorCodeOrOk(failed), 'call_settled')
  await at.expire(at.two)
  t.match(await claimPaymentOnTestNode(at.two, at.claimed), { refusal: 'settlement_unknown' })
  await at.settle(at.two)
  await at.settle(at.one)
  t.equal(await at.state(), 'settled/delivered')
  t.equal(await at.calls(), 1)
  t.equal(await readLedgerBalance(at.sql, `agent:${at.builder}:cash`), 18_000)
  t.equal(await readLedgerBalance(at.sql, 'treasury:fees'), 5_400)
  t.equal(await readLedgerBalance(at.sql, 'platform:tools'), 6_600)
  t.equal(await readLedgerBalance(at.sql, 'owed:base'), 0)
  t.match(await claimPaymentOnTestNode(at.two, at.claimed), { claim: 'known', refusal: null })
  await assertNoInvariantViolations(t, at.sql)
})

t.test('a lost payment pays nobody and buys nothing else; its payer needs a key', async (t) => {
  const at = await start(t)
  await at.deliver(at.one)
  await at.lose(at.two)
  t.equal(await at.state(), 'lost/withheld')
  t.equal(await at.calls(), 0)
  t.equal(await readLedgerBalance(at.sql, `agent:${at.builder}:cash`), 0)
  t.match(await claimPaymentOnTestNode(at.one, at.claimed), { refusal: 'payment_invalid' })
  t.strictSame(await readPayerMachineState(at.sql), { value: 'blocked', losses: 0 })
  const more = () => samplePaymentClaimInput(samplePayment(0.01), { mode: 'withheld' })
  t.equal(await awaitErrorCodeOrOk(claimPaymentOnTestNode(at.two, more())), 'payment_invalid')
  const plain = samplePaymentClaimInput(samplePayment(0.01))
  t.match(await claimPaymentOnTestNode(at.two, plain), { mode: 'first' }, 'tools of the station')
  await assertNoInvariantViolations(t, at.sql)
  await at.settle(at.two)
  t.equal(await at.state(), 'settled/delivered', 'somebody submitted it after all')
  t.equal(await readLedgerBalance(at.sql, `agent:${at.builder}:cash`), 18_000)
  await assertNoInvariantViolations(t, at.sql)
})

t.test('an arrival without the stored answer is refused, and booked with it', async (t) => {
  const at = await start(t)
  await at.deliver(at.one)
  const where = { tx: '0x01', logIndex: 0, block: 101n }
  await t.rejects(runSettlementCommand(at.two, at.claimed, recordPaymentSettledCommand, where))
  t.equal(await at.state(), 'due/withheld')
  await at.settle(at.two)
  t.equal(await at.calls(), 1)
  await assertNoInvariantViolations(t, at.sql)
})
