import fc from 'fast-check'
import t from 'tap'
import { parseWithBigints } from '../../../core/json/bigint.ts'
import {
  agentCashAccount,
  PROMO_GRANTS_ACCOUNT,
  agentHeldAccount,
  agentHeldPromoAccount,
  agentPromoAccount,
  referralCashAccount,
  referralPromoAccount,
} from '../../../payments/ledger-accounts.ts'
import { getAgentBalanceCommand } from '../../../payments/commands/agent-account-commands.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import {
  findInvariantViolations,
  createTestActorNode,
  createTestClock,
} from '../../support/actors/test-actor-node.ts'
import type { LedgerModelOperation } from '../../support/ledger-model/ledger-model-operations.ts'
import {
  LEDGER_MODEL_REFERRER,
  ReferenceLedger,
} from '../../support/ledger-model/reference-ledger.ts'
import {
  LedgerModelInMemoryRunner,
  LedgerModelDatabaseRunner,
  type LedgerModelFuse,
  type LedgerModelCommandBuilder,
} from '../../support/ledger-model/ledger-model-operation-runners.ts'

const SEED = Number(process.env['FC_SEED'] ?? Date.now() % 2 ** 31)
/** `npm run prove` draws 10,000. */
const PURE_RUNS = Number(process.env['FC_RUNS'] ?? 3_000)
const REAL_RUNS = 300
const SIDE_BY_SIDE = 12

const amount = fc.constantFrom(0n, 1n, 7n, 40n, 100n, 250n)
const some = fc.constantFrom(1n, 7n, 40n, 100n, 250n)
const maybe = fc.option(fc.constantFrom(40n, 100n, 300n), { nil: null })
const at = fc.nat({ max: 1 })
const call = fc.nat({ max: 4 })
const task = fc.nat({ max: 2 })
const yes = fc.boolean()
const op = <T extends LedgerModelOperation['type']>(type: T, fields: object) =>
  fc.record({
    type: fc.constant(type),
    node: at,
    ...fields,
  }) as unknown as fc.Arbitrary<LedgerModelOperation>
const admit = op('admit', {
  agent: at,
  amount,
  key: yes,
  task: fc.option(task, { nil: null }),
  pack: yes,
  durable: yes,
  passable: yes,
})
const settle = op('settle', {
  call,
  part: fc.constantFrom(0n, 1n, 3n, 4n, 4n),
  share: fc.constantFrom(0n, 0n, 1n, 3n, 4n),
  withFee: yes,
  promoToo: yes,
})
const fuse = op('fuse', {
  agent: at,
  perCall: maybe,
  perDay: maybe,
  named: fc.subarray(['perCall', 'perDay']),
})

/** A sequence of operations; a call is named by the place of its admission in it. */
const sequence = fc.array(
  fc.oneof(
    { arbitrary: admit, weight: 8 },
    { arbitrary: settle, weight: 6 },
    { arbitrary: op('fail', { call }), weight: 2 },
    { arbitrary: op('forget', { call }), weight: 1 },
    { arbitrary: op('expire', { call }), weight: 1 },
    { arbitrary: op('send', { agent: at, amount: some, promoToo: yes }), weight: 3 },
    { arbitrary: op('tip', { agent: at, amount: some, promoToo: yes }), weight: 2 },
    { arbitrary: op('deposit', { agent: at, amount: some }), weight: 1 },
    { arbitrary: op('activate', { agent: at }), weight: 1 },
    { arbitrary: op('look', { agent: at }), weight: 1 },
    { arbitrary: op('buyPass', { agent: at }), weight: 2 },
    { arbitrary: op('start', { agent: at, amount: some }), weight: 2 },
    { arbitrary: op('budget', { task, amount }), weight: 1 },
    { arbitrary: op('end', { task, cancel: yes }), weight: 1 },
    { arbitrary: fuse, weight: 1 },
    { arbitrary: op('revoke', { agent: at }), weight: 1 },
  ),
  { minLength: 10, maxLength: 30, size: 'max' },
)
const scenario = fc.record({
  starters: fc
    .tuple(fc.constantFrom(100n, 1_000n), fc.constantFrom(0n, 1_000n))
    .map((pair) => [...pair]),
  fuse: fc.record({ perCall: maybe, perDay: maybe }) as fc.Arbitrary<LedgerModelFuse>,
  ops: sequence,
})
type Scenario = typeof scenario extends fc.Arbitrary<infer S> ? S : never

const show = (value: unknown) =>
  JSON.stringify(value, (_, one: unknown) => (typeof one === 'bigint' ? `${one}n` : one))
const codes = new Map<string, number>()
const note = (op: LedgerModelOperation, code: string) =>
  codes.set(`${op.type} ${code}`, (codes.get(`${op.type} ${code}`) ?? 0) + 1)

type Found = { context: Record<string, unknown>; value: unknown } | undefined
type Find = (
  agent: number,
  kind: 'agent' | 'backpack' | 'taskSession' | 'taskPasses',
  id: string,
) => Found

/** The first difference between the service and the reference, or null. */
function difference(
  expected: ReferenceLedger,
  names: LedgerModelCommandBuilder,
  find: Find,
): string | null {
  const all: [string, unknown, unknown][] = []
  expected.agents.forEach(({ promo, cash, keySpent, inbox, pack, openPass }, agent) => {
    const own = find(agent, 'agent', names.agents[agent] as string)
    const spentByKey = Object.values((own?.context['keySpent'] ?? {}) as Record<string, bigint>)
    all.push(
      [`promo of ${agent}`, own?.context['promo'], promo],
      [`cash of ${agent}`, own?.context['cash'], cash],
      [`held of ${agent}`, own?.context['held'], expected.held(agent)],
      [`key of ${agent}`, spentByKey[0] ?? 0n, keySpent],
      [`inbox of ${agent}`, 0, inbox.length],
    )
    const passes = find(agent, 'taskPasses', names.agents[agent] as string)?.context['passes'] ?? {}
    const [pass = null] = Object.values(passes) as (typeof openPass)[]
    for (const field of ['left', 'held', 'promo', 'cash'] as const)
      all.push([`${field} of the pass of ${agent}`, pass?.[field], openPass?.[field]])
    const found = find(agent, 'backpack', names.packs[agent] as string)
    all.push(
      [`Backpack ${agent} spent`, found?.context['spentDay'], pack.spent],
      [`Backpack ${agent} in all`, found?.context['spentTotal'], pack.spent],
      [`Backpack ${agent} held`, found?.context['heldDay'], pack.held],
      [`Backpack ${agent} revoked`, found?.value === 'revoked', pack.revoked],
    )
  })
  expected.tasks.forEach(({ agent, budget, spent, held, state }, index) => {
    const found = find(agent, 'taskSession', names.tasks[index]?.id ?? '')
    all.push(
      [`task ${index} budget`, found?.context['budget'], budget],
      [`task ${index} spent`, found?.context['spent'], spent],
      [`task ${index} held`, found?.context['held'], held],
      [`task ${index} state`, found?.value, state],
    )
  })
  const wrong = all.find(([, is, should]) => is !== should)
  return wrong === undefined ? null : `${wrong[0]} is ${String(wrong[1])}, not ${String(wrong[2])}`
}

const finalLooks = (node: number): LedgerModelOperation[] =>
  [0, 1, LEDGER_MODEL_REFERRER].map((agent) => ({ type: 'look', agent, node }))

/** Accrued, unpaid shares of the mentor, by account. */
function referralOfMentor(
  { referral }: ReferenceLedger,
  names: LedgerModelCommandBuilder,
): [string, bigint][] {
  const mentor = names.agents[LEDGER_MODEL_REFERRER] as string
  return [
    [referralCashAccount(mentor), referral.cash],
    [referralPromoAccount(mentor), referral.promo],
  ]
}

function playPure({ starters, fuse, ops }: Scenario): void {
  const expected = new ReferenceLedger(starters, fuse)
  const world = new LedgerModelInMemoryRunner(starters, fuse)
  for (const [id, given] of [...ops, ...finalLooks(0)].entries()) {
    const one = expected.resolveOperation(given)
    const agent = expected.agentOf(one)
    const should = expected.apply(one, id)
    const is = agent === null ? 'skipped' : world.apply(one, agent, id)
    note(one, is)
    if (is !== should) throw new Error(`${id} ${show(one)} is ${is}, not ${should}`)
  }
  const wrong = difference(
    expected,
    world.ids,
    (agent, kind, id) => world.context(agent, kind, id) as Found,
  )
  if (wrong !== null) throw new Error(wrong)
  const balances: [string, bigint][] = expected.agents.flatMap(({ promo, cash }, agent) => {
    const id = world.ids.agents[agent] as string
    return [
      [agentPromoAccount(id), promo],
      [agentCashAccount(id), cash],
      [agentHeldAccount(id), expected.heldOf(agent, 'cash')],
      [agentHeldPromoAccount(id), expected.heldOf(agent, 'promo')],
    ] as [string, bigint][]
  })
  balances.push(...referralOfMentor(expected, world.ids))
  balances.push(['platform:tools', expected.platform], ['treasury:fees', expected.treasury])
  balances.push([PROMO_GRANTS_ACCOUNT, -expected.granted])
  for (const [account, should] of balances) {
    const is = world.ledger.get(account) ?? 0n
    if (is !== should) throw new Error(`${account} holds ${is} in the ledger, not ${should}`)
  }
  const total = [...world.ledger.values()].reduce((all, one) => all + one, 0n)
  if (total !== 0n) throw new Error(`the ledger sums to ${total}`)
  expected.agents.forEach((_, agent) => {
    for (const side of [0, 1] as const) {
      const should = expected.reserved(agent, side)
      const is = world.held[agent]?.[side].total
      if (is !== should) throw new Error(`${agent} holds ${is} in memory of ${side}, not ${should}`)
    }
  })
}

t.test(`balances equal the reference ledger in ${PURE_RUNS} random sequences`, async (t) => {
  let longest = 0
  // Every second command is rejected: the stacks of the errors would take a seventh of the time.
  const { stackTraceLimit } = Error
  t.teardown(() => (Error.stackTraceLimit = stackTraceLimit))
  Error.stackTraceLimit = 0
  fc.assert(
    fc.property(scenario, (one) => {
      longest = Math.max(longest, one.ops.length)
      playPure(one)
    }),
    { seed: SEED, numRuns: PURE_RUNS },
  )
  t.comment(`seed ${SEED}, longest sequence ${longest} operations`)
  const both = [
    'ok',
    'payment_required',
    'key_cap_exceeded',
    'task_budget_exceeded',
    'FUSE_TRIPPED',
    'REVOKED',
  ]
  for (const code of both) t.comment(`settle ${code}: ${codes.get(`settle ${code}`) ?? 0} times`)
  const wanted = both.map((code) => `admit ${code}`)
  wanted.push('admit task_not_active', 'settle ok', 'settle call_settled')
  wanted.push('buyPass ok', 'buyPass payment_required', 'buyPass limit_reached')
  wanted.push('fuse ok', 'fuse limit_not_named', 'fuse REVOKED')
  wanted.push('send promo_not_transferable', 'tip payment_required', 'budget budget_below_spent')
  for (const one of wanted) t.ok((codes.get(one) ?? 0) > 0, `${one}: ${codes.get(one) ?? 0} times`)
})

t.test(
  `two nodes over one database give the same results in ${REAL_RUNS} of them`,
  { timeout: 110_000 },
  async (t) => {
    const { sql } = await createTestDatabase(t)
    const clock = createTestClock()
    const nodes = [
      createTestActorNode(t, sql, { clock }),
      createTestActorNode(t, sql, { clock }),
    ] as const
    const all = fc.sample(scenario, { seed: SEED, numRuns: REAL_RUNS })
    let longest = 0
    const play = async ({ starters, fuse, ops }: Scenario) => {
      longest = Math.max(longest, ops.length)
      const expected = new ReferenceLedger(starters, fuse)
      const world = await LedgerModelDatabaseRunner.open(nodes, starters, fuse)
      for (const [id, given] of [...ops, ...finalLooks(1)].entries()) {
        const one = expected.resolveOperation(given)
        const agent = expected.agentOf(one)
        const should = expected.apply(one, id)
        const is = agent === null ? 'skipped' : await world.apply(one, agent, id)
        if (is !== should) t.fail(`${id} ${show(one)} is ${is}, not ${should}`, { ops: show(ops) })
      }
      const rows = await sql<{ kind: string; id: string; state: string }[]>`
      select kind, id, state::text as state from actors where aggregate_id in ${sql(world.ids.agents)}`
      const found = new Map(
        rows.map((row) => [`${row.kind} ${row.id}`, parseWithBigints<Found>(row.state)]),
      )
      const wrong = difference(expected, world.ids, (_, kind, id) => {
        const one = found.get(`${kind} ${id}`)
        return one === undefined || typeof one.value === 'string' || kind !== 'taskSession'
          ? one
          : undefined
      })
      if (wrong !== null) t.fail(wrong, { ops: show(ops) })
      for (const [account, should] of referralOfMentor(expected, world.ids)) {
        const [row] = await sql<{ sum: bigint }[]>`
          select coalesce(sum(amount_micros), 0)::bigint as sum from transfers where credit = ${account}`
        if (row?.sum !== should)
          t.fail(`${account} holds ${row?.sum}, not ${should}`, { ops: show(ops) })
      }
      for (const [agent, id] of world.ids.agents.entries()) {
        for (const side of [0, 1] as const) {
          const { reserved } = await nodes[side].ask(id, getAgentBalanceCommand, {})
          const should = expected.reserved(agent, side)
          if (reserved !== should)
            t.fail(`${reserved} in memory, not ${should}`, { ops: show(ops) })
        }
      }
    }
    const waiting = [...all]
    await Promise.all(
      Array.from({ length: SIDE_BY_SIDE }, async () => {
        for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) await play(one)
      }),
    )
    t.comment(`seed ${SEED}, longest sequence ${longest} operations`)
    t.strictSame(await findInvariantViolations(sql), {}, 'gas verify finds nothing')
  },
)
