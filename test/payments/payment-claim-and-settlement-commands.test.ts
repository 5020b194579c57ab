import t from 'tap'
import {
  deliverPaidCallsCommand,
  releaseFailedCallPaymentCommand,
  type PaymentClaimInput,
  type PaymentClaimResult,
} from '../../payments/commands/payment-claim-commands.ts'
import {
  recordPaymentLostCommand,
  recordPaymentSettledCommand,
  reverseReorgedSettlementCommand,
  recordPaymentOutcomeUnknownCommand,
} from '../../payments/commands/settlement-commands.ts'
import { getAgentBalanceAndDepositsCommand } from '../../payments/commands/agent-balance-and-pending-deposits-query.ts'
import { getAgentBalanceCommand } from '../../payments/commands/agent-account-commands.ts'
import { HOUR, MINUTE } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { createSettlementQueries } from '../../persistence/payments/settlement-queries.ts'
import {
  createTestActorNodePair,
  createSingleTestActorNode,
  assertNoInvariantViolations,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  runSettlementCommand,
  claimPaymentOnTestNode,
  samplePaymentClaimInput,
  sampleFailedPaidCallOutcome,
  samplePaidCallOutcome,
  samplePayment,
  reportClaimedPaymentSettled,
  PAYMENT_TIMER_COMMANDS,
} from '../support/payments/sample-payment-claims.ts'
import { toSettlementId } from '../../payments/commands/payment-claim-commands.ts'
import { toPayerAggregateId } from '../../payments/commands/payment-claim-commands.ts'
import { awaitErrorCodeOrOk, createTestClock } from '../support/actors/test-actor-node.ts'
import {
  readSettlementState,
  readLedgerBalance,
  readPayerMachineState,
} from '../support/payments/settlement-and-payer-state-readers.ts'

const options = { timerCommands: PAYMENT_TIMER_COMMANDS }
const count = (claims: readonly PaymentClaimResult[], what: string) =>
  claims.filter((one) => one.claim === what).length

t.test('one of 64 claims of one payment on two nodes is new', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t, options)
  const payment = samplePayment(0.03)
  const claims = await Promise.all(
    Array.from({ length: 64 }, (_, index) =>
      claimPaymentOnTestNode(index % 2 ? one : two, samplePaymentClaimInput(payment)),
    ),
  )
  t.equal(count(claims, 'new'), 1)
  const known = claims.filter((found) => found.claim === 'known')
  t.equal(known.length, 63)
  for (const found of known) {
    t.match(found, { refusal: 'payment_in_progress', money: 'claimed', sameRequest: true })
  }
  t.equal(await createSettlementQueries(sql).exposure(), 30_000n)
  await assertNoInvariantViolations(t, sql)
})

t.test('of six authorizations over a balance for five one is rejected', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t, options)
  const claims = Array.from({ length: 6 }, () =>
    samplePaymentClaimInput(samplePayment(0.01), { balance: 50_000n }),
  )
  const codes = await Promise.all(
    claims.map((claimed, index) =>
      awaitErrorCodeOrOk(claimPaymentOnTestNode(index % 2 ? one : two, claimed)),
    ),
  )
  t.strictSame(
    codes.filter((code) => code !== 'ok'),
    ['payment_invalid'],
  )
  await t.rejects(
    claimPaymentOnTestNode(one, samplePaymentClaimInput(samplePayment(0.01), { balance: 50_000n })),
    {
      code: 'payment_invalid',
      details: { reason: 'insufficient_balance' },
    },
  )
  t.match(await createSettlementQueries(sql).counts(), { open: 5, lost: 0, exposure: 50_000n })
  await assertNoInvariantViolations(t, sql)
})

t.test('a payment above its limit settles first', async (t) => {
  const { one } = await createSingleTestActorNode(t, options)
  const modes = []
  for (let n = 0; n < 4; n += 1)
    modes.push(await claimPaymentOnTestNode(one, samplePaymentClaimInput(samplePayment(0.03))))
  t.strictSame(
    modes.map((found) => 'mode' in found && found.mode),
    ['optimistic', 'optimistic', 'optimistic', 'first'],
  )
})

t.test('a call without an agent: claimed, delivered, settled', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, options)
  const claimed = samplePaymentClaimInput(samplePayment(0.03))
  await claimPaymentOnTestNode(one, claimed)
  t.match(
    await runSettlementCommand(
      one,
      claimed,
      deliverPaidCallsCommand,
      samplePaidCallOutcome(claimed),
    ),
    { money: 'due' },
  )
  t.equal(await readLedgerBalance(sql, 'owed:base'), -30_000)
  t.equal(await readLedgerBalance(sql, 'platform:tools'), 24_600)
  await assertNoInvariantViolations(t, sql)
  await reportClaimedPaymentSettled(one, claimed)
  t.equal(await readLedgerBalance(sql, 'owed:base'), 0)
  t.equal(await readLedgerBalance(sql, 'world:base'), -30_000)
  t.equal(await readSettlementState(sql, claimed), 'settled/delivered')
  await assertNoInvariantViolations(t, sql)
  const again = await claimPaymentOnTestNode(one, samplePaymentClaimInput(claimed.payment))
  t.match(again, { claim: 'known', refusal: null, callId: claimed.callId, sameRequest: true })
  const other = await claimPaymentOnTestNode(
    one,
    samplePaymentClaimInput(claimed.payment, { fingerprint: 'another' }),
  )
  t.match(other, { claim: 'known', refusal: 'payment_already_used', sameRequest: false })
  t.equal(
    await awaitErrorCodeOrOk(
      runSettlementCommand(one, claimed, deliverPaidCallsCommand, samplePaidCallOutcome(claimed)),
    ),
    'call_settled',
  )
  await reportClaimedPaymentSettled(one, claimed)
  t.equal(await readLedgerBalance(sql, 'world:base'), -30_000, 'it settles once')
  t.match(await createSettlementQueries(sql).view(toSettlementId(claimed.payment)), {
    money: 'settled',
    price: 30_000n,
    amount: '30000',
    callId: claimed.callId,
    agentId: null,
  })
})

t.test('a failed call releases the payment for another use', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, options)
  const payment = samplePayment(0.03)
  const first = samplePaymentClaimInput(payment)
  await claimPaymentOnTestNode(one, first)
  t.match(
    await runSettlementCommand(
      one,
      first,
      releaseFailedCallPaymentCommand,
      sampleFailedPaidCallOutcome(first),
    ),
    {
      money: 'released',
    },
  )
  const second = samplePaymentClaimInput(payment, { fingerprint: 'another' })
  t.match(await claimPaymentOnTestNode(one, second), { claim: 'new', mode: 'optimistic' })
  t.equal(
    await awaitErrorCodeOrOk(
      runSettlementCommand(one, first, deliverPaidCallsCommand, samplePaidCallOutcome(first)),
    ),
    'call_settled',
  )
  await runSettlementCommand(one, second, deliverPaidCallsCommand, samplePaidCallOutcome(second))
  await reportClaimedPaymentSettled(one, second)
  await assertNoInvariantViolations(t, sql)
})

t.test('a claim of a dead process is released by its timer', async (t) => {
  const clock = createTestClock()
  const { sql, one } = await createSingleTestActorNode(t, { ...options, clock })
  const claimed = samplePaymentClaimInput(samplePayment(0.03), { expiresAt: clock.now() + MINUTE })
  await claimPaymentOnTestNode(one, claimed)
  clock.pass(MINUTE + 1)
  await one.alarms.sweep()
  t.equal(await readSettlementState(sql, claimed), 'released/waiting')
  const late = runSettlementCommand(
    one,
    claimed,
    deliverPaidCallsCommand,
    samplePaidCallOutcome(claimed),
  )
  t.equal(await awaitErrorCodeOrOk(late), 'call_settled')
  t.equal(await createSettlementQueries(sql).exposure(), 0n)
  await assertNoInvariantViolations(t, sql)
})

t.test('a loss is charged to the treasury and reverted if the money arrives later', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, options)
  const claimed = samplePaymentClaimInput(samplePayment(0.03))
  await claimPaymentOnTestNode(one, claimed)
  await runSettlementCommand(one, claimed, deliverPaidCallsCommand, samplePaidCallOutcome(claimed))
  await runSettlementCommand(one, claimed, recordPaymentOutcomeUnknownCommand, {})
  await runSettlementCommand(one, claimed, recordPaymentLostCommand, {
    lookAt: Date.now() + MINUTE,
  })
  t.equal(await readLedgerBalance(sql, 'treasury:fees'), 5_400 - 30_000)
  t.strictSame(await readPayerMachineState(sql), { value: 'blocked', losses: 30_000 })
  t.match(await createSettlementQueries(sql).counts(), {
    lost: 1,
    lostValue: 30_000n,
    exposure: 0n,
  })
  const stake = (hours: number) =>
    createSettlementQueries(sql).atStake(new Date(Date.now() - hours * HOUR))
  t.equal(await stake(24), 30_000n, 'what was lost today counts against the exposure')
  t.equal(await stake(-1), 0n, 'and no longer than that')
  await assertNoInvariantViolations(t, sql)
  t.match(
    await claimPaymentOnTestNode(one, samplePaymentClaimInput(samplePayment(0.01))),
    { mode: 'first' },
    'blocked for good',
  )
  await runSettlementCommand(one, claimed, recordPaymentSettledCommand, {
    tx: '0x1',
    logIndex: 0,
    block: 5n,
  })
  t.equal(await readLedgerBalance(sql, 'treasury:fees'), 5_400)
  t.equal(await stake(24), 0n, 'nothing is lost any more')
  await assertNoInvariantViolations(t, sql)
})

t.test('a settled, undelivered payment runs again, one of 64 at a time', async (t) => {
  const { sql, one, two } = await createTestActorNodePair(t, options)
  const first = samplePaymentClaimInput(samplePayment(0.03), { mode: 'first' })
  await claimPaymentOnTestNode(one, first)
  await reportClaimedPaymentSettled(one, first)
  await assertNoInvariantViolations(t, sql)
  await runSettlementCommand(
    one,
    first,
    releaseFailedCallPaymentCommand,
    sampleFailedPaidCallOutcome(first),
  )
  const reruns = Array.from({ length: 64 }, () => samplePaymentClaimInput(first.payment))
  const found = await Promise.all(
    reruns.map((rerun, n) => claimPaymentOnTestNode(n % 2 ? one : two, rerun)),
  )
  t.equal(count(found, 'prepaid'), 1)
  t.equal(count(found, 'known'), 63)
  const runner = reruns[found.findIndex((one) => one.claim === 'prepaid')] as PaymentClaimInput
  await runSettlementCommand(two, runner, deliverPaidCallsCommand, samplePaidCallOutcome(runner))
  t.equal(await readLedgerBalance(sql, 'owed:base'), 0)
  t.equal(await readSettlementState(sql, first), 'settled/delivered')
  await assertNoInvariantViolations(t, sql)
})

t.test('a top-up is credited in the commit that settles it', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, options)
  const agentId = await one.born(0)
  const purpose = { kind: 'topup', agentId } as const
  const claimed = samplePaymentClaimInput(samplePayment(2), { purpose, agentId })
  t.match(await claimPaymentOnTestNode(one, claimed), { mode: 'first' })
  await reportClaimedPaymentSettled(one, claimed)
  await assertNoInvariantViolations(t, sql)
  t.match(await one.ask(agentId, getAgentBalanceCommand, {}), { cash: 2_000_000n, promo: 500_000n })
  t.equal(await readSettlementState(sql, claimed), 'settled/delivered')
  await assertNoInvariantViolations(t, sql)
})

t.test('one transfer on a chain settles one payment', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, options)
  const [first, second] = [
    samplePaymentClaimInput(samplePayment(0.01)),
    samplePaymentClaimInput(samplePayment(0.01)),
  ]
  for (const claimed of [first, second]) {
    await claimPaymentOnTestNode(one, claimed)
    await runSettlementCommand(
      one,
      claimed,
      deliverPaidCallsCommand,
      samplePaidCallOutcome(claimed),
    )
  }
  await reportClaimedPaymentSettled(one, first, '0xsame')
  const stolen = await reportClaimedPaymentSettled(one, second, '0xsame').catch(
    (error: unknown) => error,
  )
  t.ok(stolen instanceof Error && !(stolen instanceof ServiceError), String(stolen))
  t.equal(await readSettlementState(sql, second), 'submitted/delivered')
  await assertNoInvariantViolations(t, sql)
})

t.test('the proof is stored per claim, and the call with its owner', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, options)
  const claimed = samplePaymentClaimInput(samplePayment(0.03))
  await claimPaymentOnTestNode(one, claimed)
  await runSettlementCommand(one, claimed, deliverPaidCallsCommand, samplePaidCallOutcome(claimed))
  const proof = await createSettlementQueries(sql).proof(toSettlementId(claimed.payment))
  t.equal(proof?.fromBlock, 36n, 'a reorganisation may put it below the block of its balance')
  t.match(proof?.payment, claimed.payment.nonce)
  await t.rejects(sql`update settlements set payment = ''`, /append-only/)
  const [row] = await sql`select owner, cost_micros from calls`
  t.match(row, { owner: toPayerAggregateId(claimed.payment), cost_micros: 30_000n })
})

t.test('the credit for a failed call is taken back when its payment is reverted', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, { timerCommands: PAYMENT_TIMER_COMMANDS })
  const agentId = await one.born(0)
  const claimed = samplePaymentClaimInput(samplePayment(0.03), { mode: 'first', agentId })
  await claimPaymentOnTestNode(one, claimed)
  await reportClaimedPaymentSettled(one, claimed, '0xaa')
  await runSettlementCommand(one, claimed, releaseFailedCallPaymentCommand, {
    ...sampleFailedPaidCallOutcome(claimed),
    row: null,
  })
  t.equal((await one.ask(agentId, getAgentBalanceAndDepositsCommand, {})).cash, 30_000n)
  const [row] = await sql<{ id: string }[]>`select id from unfinalized_transfers`
  const settlement = toSettlementId(claimed.payment)
  const move = {
    id: row?.id ?? '',
    chain: 'base',
    tx: '0xaa',
    logIndex: 0,
    kind: 'settlement',
    ref: settlement,
  }
  await runSettlementCommand(one, claimed, reverseReorgedSettlementCommand, { move })
  t.equal(
    (await one.ask(agentId, getAgentBalanceAndDepositsCommand, {})).cash,
    30_000n,
    'it may settle again',
  )
  await assertNoInvariantViolations(t, sql)
  await runSettlementCommand(one, claimed, recordPaymentLostCommand, { lookAt: null })
  t.equal((await one.ask(agentId, getAgentBalanceAndDepositsCommand, {})).cash, 0n)
  await assertNoInvariantViolations(t, sql)
  await reportClaimedPaymentSettled(one, claimed, '0xbb')
  t.equal(
    (await one.ask(agentId, getAgentBalanceAndDepositsCommand, {})).cash,
    30_000n,
    'it landed after all',
  )
  await assertNoInvariantViolations(t, sql)
})

t.test('the store reads the attempts of a settlement', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t, options)
  const claimed = samplePaymentClaimInput(samplePayment(0.03))
  await claimPaymentOnTestNode(one, claimed)
  await sql`
    update actors set state = jsonb_set(state, '{context,attempts}', '7') where kind = 'settlement'`
  const id = toSettlementId(claimed.payment)
  const store = createSettlementQueries(sql)
  const [proven] = await store.proven([id])
  t.strictSame([(await store.find(id))?.attempts, proven?.attempts], [7, 7])
})
