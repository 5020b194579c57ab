import t from 'tap'
import {
  admitCallCommand,
  failCallCommand,
  settleCallCommand,
} from '../../payments/commands/call-commands.ts'
import {
  expirePaymentClaimCommand,
  type PaymentClaimInput,
} from '../../payments/commands/payment-claim-commands.ts'
import { getAgentBalanceCommand } from '../../payments/commands/agent-account-commands.ts'
import { MINUTE } from '../../core/clock.ts'
import {
  createSingleTestActorNode,
  assertNoInvariantViolations,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  runSettlementCommand,
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  samplePayment,
  reportClaimedPaymentSettled,
  PAYMENT_TIMER_COMMANDS,
} from '../support/payments/sample-payment-claims.ts'
import { toSettlementId } from '../../payments/commands/payment-claim-commands.ts'
import { toPayerAggregateId } from '../../payments/commands/payment-claim-commands.ts'
import {
  sampleCallAdmissionRequest,
  failCallInputOfAdmission,
  settleCallInputOfAdmission,
  createTestClock,
  type TestActorNode,
} from '../support/actors/test-actor-node.ts'
import {
  readSettlementState,
  readLedgerBalance,
  readPayerMachineState,
} from '../support/payments/settlement-and-payer-state-readers.ts'

const options = { timerCommands: PAYMENT_TIMER_COMMANDS }

/** An agent's call that another rail pays: held, claimed. */
async function keyed(one: TestActorNode, usdc: number, more: Partial<PaymentClaimInput> = {}) {
  const agentId = await one.born(0)
  const payment = samplePayment(usdc)
  const ref = {
    payer: toPayerAggregateId(payment),
    settlement: toSettlementId(payment),
    chain: 'base' as const,
  }
  const asked = sampleCallAdmissionRequest(usdc, { payment: ref, expiresAt: Date.now() + MINUTE })
  const claimed = samplePaymentClaimInput(payment, { callId: asked.callId, agentId, ...more })
  await one.ask(agentId, admitCallCommand, asked)
  const found = await claimPaymentOnTestNode(one, claimed)
  const wake = () => one.wake(toPayerAggregateId(payment), 'payer')
  return { agentId, asked, claimed, found, wake }
}

t.test('a call of an agent delivers with its own commit, and the payer is notified', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, options)
  const { agentId, asked, claimed, wake } = await keyed(one, 0.03)
  await one.ask(agentId, settleCallCommand, settleCallInputOfAdmission(asked, agentId))
  t.equal(await readSettlementState(sql, claimed), 'claimed/waiting')
  await assertNoInvariantViolations(t, sql)
  await wake()
  t.equal(await readSettlementState(sql, claimed), 'due/delivered')
  await assertNoInvariantViolations(t, sql)
  await reportClaimedPaymentSettled(one, claimed)
  t.equal(await readLedgerBalance(sql, 'owed:base'), 0)
  await assertNoInvariantViolations(t, sql)
})

t.test('a failed call of an agent frees the payment; other calls change nothing', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, options)
  const { agentId, asked, claimed, wake } = await keyed(one, 0.03)
  const second = sampleCallAdmissionRequest(0.03, {
    payment: asked.payment,
    expiresAt: Date.now() + MINUTE,
  })
  await one.ask(agentId, admitCallCommand, second)
  const refused = await claimPaymentOnTestNode(one, { ...claimed, callId: second.callId })
  t.match(refused, { claim: 'known', refusal: 'payment_in_progress' })
  await one.ask(agentId, failCallCommand, failCallInputOfAdmission(second, agentId))
  await wake()
  t.equal(await readSettlementState(sql, claimed), 'claimed/waiting', 'only the runner lets it go')
  await one.ask(agentId, failCallCommand, failCallInputOfAdmission(asked, agentId))
  await wake()
  t.equal(await readSettlementState(sql, claimed), 'released/waiting')
  await assertNoInvariantViolations(t, sql)
})

for (const order of ['settled, then failed', 'failed, then settled']) {
  t.test(`an agent is credited for a call that failed: ${order}`, async (t) => {
    const { sql, one } = await createSingleTestActorNode(t, options)
    const { agentId, asked, claimed, found, wake } = await keyed(one, 0.03, { mode: 'first' })
    t.match(found, { mode: 'first' })
    if (order === 'settled, then failed') await reportClaimedPaymentSettled(one, claimed)
    await one.ask(agentId, failCallCommand, failCallInputOfAdmission(asked, agentId))
    await wake()
    if (order === 'failed, then settled') await reportClaimedPaymentSettled(one, claimed)
    t.equal(await readSettlementState(sql, claimed), 'settled/failed')
    await assertNoInvariantViolations(t, sql)
    t.match(await one.ask(agentId, getAgentBalanceCommand, {}), { cash: 30_000n, promo: 0n })
    t.equal(await readLedgerBalance(sql, 'owed:base'), 0)
    t.match(await claimPaymentOnTestNode(one, { ...claimed, callId: asked.callId }), {
      refusal: 'payment_credited',
    })
    await assertNoInvariantViolations(t, sql)
  })
}

t.test('a result after the payment was given up is a loss', async (t) => {
  const clock = createTestClock()
  const { sql, one } = await createSingleTestActorNode(t, { ...options, clock })
  const { agentId, asked, claimed, wake } = await keyed(one, 0.03)
  const { callId } = claimed
  await runSettlementCommand(one, claimed, expirePaymentClaimCommand, { callId })
  t.equal(await readSettlementState(sql, claimed), 'released/waiting')
  await one.ask(agentId, settleCallCommand, settleCallInputOfAdmission(asked, agentId))
  await assertNoInvariantViolations(t, sql)
  await wake()
  t.equal(await readSettlementState(sql, claimed), 'lost/delivered')
  t.strictSame(await readPayerMachineState(sql), { value: 'blocked', losses: 30_000 })
  await assertNoInvariantViolations(t, sql)
})
