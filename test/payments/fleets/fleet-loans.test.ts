import { DAILY_BONUS_LIMIT } from '../../../domain/pricing.ts'
import t from 'tap'
import type { AggregateCommand } from '../../../actors/aggregate-command-types.ts'
import {
  createScheduleCommand,
  failScheduleRunCommand,
} from '../../../actors/commands/schedule-aggregate-commands.ts'
import { retryWithFleetLoan } from '../../../calls/fleet-loan-for-call.ts'
import { ServiceError } from '../../../core/errors.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc, toUsdc } from '../../../core/money.ts'
import type { CallAdmissionRequest } from '../../../payments/agent-call-admission-request-types.ts'
import {
  admitCallCommand,
  failCallCommand,
  releaseCallHoldCommand,
  settleCallCommand,
} from '../../../payments/commands/call-commands.ts'
import {
  createFleetCommand,
  drawFromFleetCommand,
  joinFleetCommand,
  getFleetPoolCreditsCommand,
  topUpFleetCommand,
} from '../../../payments/commands/fleet-commands.ts'
import { leaveFleetCommand } from '../../../payments/commands/leave-fleet-commands.ts'
import {
  getAgentBalanceCommand,
  sendCreditsCommand,
} from '../../../payments/commands/agent-account-commands.ts'
import {
  createTestActorNodePair,
  sampleCreditTransferInput,
  createSingleTestActorNode,
  assertNoInvariantViolations,
} from '../../support/actors/test-actor-node-pairs.ts'
import {
  sampleCallAdmissionRequest,
  awaitErrorCodeOrOk,
  failCallInputOfAdmission,
  loseReplyAfterCommit,
  loseConnectionBeforeCommit,
  createStrictlyIncreasingClock,
  settleCallInputOfAdmission,
  type TestActorNode,
} from '../../support/actors/test-actor-node.ts'

const HOUR = 3_600_000

let arrivals = 0
/** A pool without members, with a bonus of a quarter of the cash. */
async function fleetWith({ ask }: Pick<TestActorNode, 'ask'>, usdc: number): Promise<string> {
  const fleetId = newUuidV7(Date.now())
  await ask(
    fleetId,
    createFleetCommand,
    { ownerId: newUuidV7(Date.now()), rows: [] },
    { fresh: true },
  )
  const tx = `0x${(arrivals += 1).toString(16).padStart(64, '0')}`
  await ask(fleetId, topUpFleetCommand, {
    tx,
    transfers: [{ logIndex: 0, amount: fromUsdc(usdc) }],
    bonusLeft: DAILY_BONUS_LIMIT,
  })
  return fleetId
}

const poolOf = async ({ ask }: Pick<TestActorNode, 'ask'>, fleetId: string) => {
  const { promo, cash } = await ask(fleetId, getFleetPoolCreditsCommand, {})
  return { promo: toUsdc(promo), cash: toUsdc(cash) }
}
const leave = (
  { ask }: Pick<TestActorNode, 'ask'>,
  agentId: string,
  fleetId: string | null = null,
) => ask(agentId, leaveFleetCommand, { fleetId, removedBy: null })
const own = async ({ ask }: Pick<TestActorNode, 'ask'>, agentId: string) => {
  const { promo, cash } = await ask(agentId, getAgentBalanceCommand, {})
  return toUsdc(promo) + toUsdc(cash)
}

const poor = () => new ServiceError('payment_required', { limit_source: 'balance' })
const partsOf = (
  { ask, releaseHold }: Pick<TestActorNode, 'ask' | 'releaseHold'>,
  clock = createStrictlyIncreasingClock(),
) => ({
  actors: { ask, releaseHold },
  clock,
  log: (message: string, error: unknown) => {
    throw new Error(message, { cause: error })
  },
})

/**
 * A call of 1.5 USDC with loans of two pools: its agent has 0.5 at the first draw, sends it away,
 * leaves, and joins the second fleet before the call is admitted.
 */
async function lentByTwo(one: TestActorNode): Promise<{
  asked: CallAdmissionRequest
  agentId: string
  fleets: readonly [string, string]
}> {
  const fleets = [await fleetWith(one, 1), await fleetWith(one, 4)] as const
  const [agentId, friend] = [await one.born(0.5), await one.born(0)]
  await one.ask(fleets[0], joinFleetCommand, { agentId })
  const asked = sampleCallAdmissionRequest(1.5, { expiresAt: Date.now() + HOUR })
  const drawing = { agentId, callId: asked.callId, amount: asked.amount, beside: true }
  let round = 0
  await retryWithFleetLoan(partsOf(one), drawing, async (lent) => {
    round += 1
    if (round === 1) throw poor()
    if (round === 2) {
      await one.ask(agentId, sendCreditsCommand, sampleCreditTransferInput(friend, 0.5))
      await leave(one, agentId)
      await one.ask(fleets[1], joinFleetCommand, { agentId })
      throw poor()
    }
    await one.ask(agentId, admitCallCommand, { ...asked, lent })
  })
  return { asked, agentId, fleets }
}

t.test('a call with loans of two pools', async (t) => {
  t.test('is held per lender, with separate bonuses', async (t) => {
    const { sql, one } = await createSingleTestActorNode(t)
    const { asked, agentId, fleets } = await lentByTwo(one)
    t.strictSame(await poolOf(one, fleets[0]), { promo: 0, cash: 0.25 })
    t.strictSame(await poolOf(one, fleets[1]), { promo: 0.5, cash: 4 })
    await assertNoInvariantViolations(t, sql)

    await one.ask(
      agentId,
      settleCallCommand,
      settleCallInputOfAdmission(asked, agentId, fromUsdc(1)),
    )
    // 0.75 of it was promotional: 0.25 of the first pool and 0.5 of the second. Then the cash of the first.
    t.strictSame(await poolOf(one, fleets[0]), { promo: 0, cash: 0.75 })
    t.strictSame(await poolOf(one, fleets[1]), { promo: 0.5, cash: 4 })
    t.equal(await own(one, agentId), 0)
    await assertNoInvariantViolations(t, sql)
  })
  for (const end of ['fails', 'is forgotten'] as const) {
    t.test(`${end}: each lender gets its loan back`, async (t) => {
      const { sql, one } = await createSingleTestActorNode(t)
      const { asked, agentId, fleets } = await lentByTwo(one)
      if (end === 'fails')
        await one.ask(agentId, failCallCommand, failCallInputOfAdmission(asked, agentId))
      else await one.ask(agentId, releaseCallHoldCommand, { callId: asked.callId })
      t.strictSame(await poolOf(one, fleets[0]), { promo: 0.25, cash: 1 })
      t.strictSame(await poolOf(one, fleets[1]), { promo: 1, cash: 4 })
      t.equal(await own(one, agentId), 0)
      await assertNoInvariantViolations(t, sql)
    })
  }
})

t.test('an agent that leaves between the check and the draw', async (t) => {
  /** Runs something once, before the first draw. */
  function before(
    one: TestActorNode,
    act: () => Promise<unknown>,
  ): Pick<TestActorNode, 'ask' | 'releaseHold'> {
    let done = false
    const ask: TestActorNode['ask'] = async (id, command, input, options) => {
      if (
        (command as AggregateCommand<never, unknown>) === (drawFromFleetCommand as unknown) &&
        !done
      ) {
        done = true
        await act()
      }
      return one.ask(id, command, input, options)
    }
    return { ...one, ask }
  }
  async function begin(one: TestActorNode) {
    const fleets = [await fleetWith(one, 1), await fleetWith(one, 4)] as const
    const agentId = await one.born(0)
    await one.ask(fleets[0], joinFleetCommand, { agentId })
    const drawing = { agentId, callId: newUuidV7(Date.now()), amount: fromUsdc(0.1), beside: true }
    return { fleets, agentId, drawing }
  }
  const attempt = async (lent: bigint) => {
    if (lent > 0n) return lent
    throw poor()
  }

  t.test(
    'gets no loan after its fleet has absorbed the message, and an insufficient balance error',
    async (t) => {
      const { sql, one } = await createSingleTestActorNode(t)
      const { fleets, agentId, drawing } = await begin(one)
      const late = before(one, async () => {
        await leave(one, agentId)
        await one.wake(fleets[0], 'fleet')
      })
      t.equal(
        await awaitErrorCodeOrOk(retryWithFleetLoan(partsOf(late), drawing, attempt)),
        'payment_required',
      )
      t.strictSame(await poolOf(one, fleets[0]), { promo: 0.25, cash: 1 })
      await assertNoInvariantViolations(t, sql)
    },
  )
  t.test('gets a loan of the fleet that it has joined meanwhile', async (t) => {
    const { sql, one } = await createSingleTestActorNode(t)
    const { fleets, agentId, drawing } = await begin(one)
    const late = before(one, async () => {
      await leave(one, agentId)
      await one.wake(fleets[0], 'fleet')
      await one.ask(fleets[1], joinFleetCommand, { agentId })
    })
    t.equal(await retryWithFleetLoan(partsOf(late), drawing, attempt), fromUsdc(0.1))
    t.strictSame(await poolOf(one, fleets[0]), { promo: 0.25, cash: 1 })
    t.strictSame(await poolOf(one, fleets[1]), { promo: 0.9, cash: 4 })
    await one.ask(agentId, releaseCallHoldCommand, { callId: drawing.callId })
    t.strictSame(await poolOf(one, fleets[1]), { promo: 1, cash: 4 })
    await assertNoInvariantViolations(t, sql)
  })
  t.test('returns earlier loans to that fleet', async (t) => {
    const { sql, one } = await createSingleTestActorNode(t)
    const { fleets, agentId, drawing } = await begin(one)
    const late = before(one, async () => {
      await leave(one, agentId)
      await one.ask(fleets[1], joinFleetCommand, { agentId })
    })
    t.equal(await retryWithFleetLoan(partsOf(late), drawing, attempt), fromUsdc(0.1))
    await one.ask(agentId, releaseCallHoldCommand, { callId: drawing.callId })
    t.strictSame(await poolOf(one, fleets[0]), { promo: 0.25, cash: 1 })
    t.strictSame(await poolOf(one, fleets[1]), { promo: 1, cash: 4 })
    await assertNoInvariantViolations(t, sql)
  })
})

t.test(
  'an agent that moves between fleets on two nodes gets loans of its current fleet',
  async (t) => {
    const { sql, one, two } = await createTestActorNodePair(t)
    const nodes = [one, two]
    const fleets = [await fleetWith(one, 1), await fleetWith(one, 1)]
    const agentId = await one.born(0)
    for (let move = 0; move < 12; move += 1) {
      // The same fleet three times in a row, then the other one, always on another node.
      const [at, next] = [nodes[move % 2] as TestActorNode, nodes[(move + 1) % 2] as TestActorNode]
      const fleetId = fleets[Math.floor(move / 3) % 2] as string
      await at.ask(fleetId, joinFleetCommand, { agentId })
      const joined = await awaitErrorCodeOrOk(next.ask(fleetId, joinFleetCommand, { agentId }))
      t.equal(joined, 'already_in_fleet')
      t.strictSame(await leave(next, agentId), { fleetId })
      t.equal(await awaitErrorCodeOrOk(leave(at, agentId, fleetId)), 'not_in_fleet')
    }
    await assertNoInvariantViolations(t, sql)
    const rows =
      await sql`select count(*)::int as n from fleet_departures where agent_id = ${agentId}`
    t.strictSame([...rows], [{ n: 12 }])
  },
)

for (const [fault, name] of [
  [loseConnectionBeforeCommit, 'before it is sent'],
  [loseReplyAfterCommit, 'after it has landed'],
] as const) {
  t.test(`a leave whose commit is lost ${name} happens once`, async (t) => {
    const { sql, one } = await createSingleTestActorNode(t)
    const fleetId = await fleetWith(one, 1)
    const agentId = await one.born(0)
    await one.ask(fleetId, joinFleetCommand, { agentId })
    await own(one, agentId)
    one.faults.push(fault)
    t.strictSame(await leave(one, agentId), { fleetId })
    const rows = await sql`select fleet_id from fleet_departures`
    t.equal(rows.length, 1)
    await one.ask(fleetId, joinFleetCommand, { agentId })
    await assertNoInvariantViolations(t, sql)
  })
}

t.test('a loan without a fleet id returns to the fleet at that time', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const fleets = [await fleetWith(one, 1), await fleetWith(one, 4)] as const
  const [agentId, callId] = [await one.born(0), newUuidV7(Date.now())]
  await one.ask(fleets[0], joinFleetCommand, { agentId })
  await own(one, agentId)
  const draw = { id: newUuidV7(Date.now()), agentId, callId, amount: fromUsdc(0.5) }
  await one.ask(fleets[0], drawFromFleetCommand, draw)
  await sql`update inbox set event = event - 'fleetId' where id = ${`draw:${draw.id}`}`
  await own(one, agentId)
  await leave(one, agentId)
  await one.ask(fleets[1], joinFleetCommand, { agentId })
  await one.ask(agentId, releaseCallHoldCommand, { callId })
  t.strictSame(await poolOf(one, fleets[0]), { promo: 0.25, cash: 1 })
  t.strictSame(await poolOf(one, fleets[1]), { promo: 1, cash: 4 })
  await assertNoInvariantViolations(t, sql)
})

t.test('paused schedules wait for the pool of their agent’s fleet only', async (t) => {
  const { sql, one } = await createSingleTestActorNode(t)
  const fleets = [await fleetWith(one, 1), await fleetWith(one, 1)] as const
  const agentId = await one.born(0)
  await one.ask(fleets[0], joinFleetCommand, { agentId })
  await own(one, agentId)
  const end = await underfundedScheduleRun(one, agentId)
  await one.ask(agentId, failScheduleRunCommand, end)
  const waiting = async () => (await sql`select from underfunded_schedules`).length
  t.equal(await waiting(), 1)
  await leave(one, agentId)
  t.equal(await waiting(), 0)
  await assertNoInvariantViolations(t, sql)
  for (const fleetId of [fleets[0], fleets[1]]) {
    await one.ask(fleetId, joinFleetCommand, { agentId })
    await own(one, agentId)
    t.equal(await waiting(), 1, 'from the moment it is in a fleet again')
    await assertNoInvariantViolations(t, sql)
    await leave(one, agentId)
  }
  t.equal(await waiting(), 0)
})

t.test(
  'a schedule that pauses in the commit in which its agent leaves can wait again',
  async (t) => {
    const { sql, one } = await createSingleTestActorNode(t)
    const fleetId = await fleetWith(one, 1)
    const agentId = await one.born(0)
    await one.ask(fleetId, joinFleetCommand, { agentId })
    await own(one, agentId)
    const end = await underfundedScheduleRun(one, agentId)
    const commits = one.commits()
    await Promise.all([one.ask(agentId, failScheduleRunCommand, end), leave(one, agentId)])
    t.equal(one.commits() - commits, 1, 'in one commit')
    await one.ask(fleetId, joinFleetCommand, { agentId })
    await own(one, agentId)
    t.strictSame(one.logged, [], 'the agent has absorbed that it is in a fleet again')
    const rows = await sql<{ id: string }[]>`select schedule_id as id from underfunded_schedules`
    t.strictSame([...rows], [{ id: end.scheduleId }])
    await assertNoInvariantViolations(t, sql)
  },
)

/** Creates a schedule, and returns how its first run fails for lack of credits. */
async function underfundedScheduleRun(one: TestActorNode, agentId: string) {
  const { scheduleId, slot } = await one.ask(agentId, createScheduleCommand, {
    ...{ name: 'x', interval: '1h', tool: 'web_search', params: '{}', budget: fromUsdc(5) },
    ...{ writeToHive: false, keyId: null, backpackId: null, sealed: null },
  })
  const error = { code: 'payment_required', needed: fromUsdc(2) } as const
  const nothing = { callId: null, cost: fromUsdc(0), budget: fromUsdc(5), result: null }
  return { scheduleId, slot: slot ?? 0, at: slot ?? 0, error, ...nothing }
}
