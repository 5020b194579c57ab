import t, { type Test } from 'tap'
import {
  IdempotencyKeyAnsweredElsewhereError,
  type AggregateCommand,
  type CommandIdempotency,
} from '../../actors/aggregate-command-types.ts'
import { HOUR } from '../../core/clock.ts'
import { fromUsdc } from '../../core/money.ts'
import { scoreBountyContent, toNormalizedWords } from '../../payments/bounty-scoring.ts'
import {
  cancelBountyCommand,
  claimBountyCommand,
  expireBountyCommand,
  postBountyCommand,
  type BountyRewardFundingRules,
  type PostBountyInput,
} from '../../payments/commands/bounty-commands.ts'
import {
  readPromoBalance,
  createTestActorNodePair,
  assertNoInvariantViolations,
  UNLIMITED_SPENDER,
} from '../support/actors/test-actor-node-pairs.ts'
import {
  awaitErrorCodeOrOk,
  createTestPauseGate,
  pauseAfterCommit,
  pauseBeforeCommit,
  loseReplyAfterCommit,
  loseConnectionBeforeCommit,
  createTestActorNode,
  createTestClock,
  type TestActorNode,
} from '../support/actors/test-actor-node.ts'

const N = 64
const REWARD = 0.25
const timerCommands = [expireBountyCommand as AggregateCommand<never, void>]
const wanted: PostBountyInput & BountyRewardFundingRules = {
  spender: UNLIMITED_SPENDER,
  promoTransferable: true,
  title: 'A word',
  description: 'Any word will do.',
  domain: 'search',
  requiredKeywords: [],
  minQuality: 0,
  reward: fromUsdc(REWARD),
  ttlHours: 1,
}
const claimOf = (agentId: string) => ({
  agentId,
  content: 'word',
  appraisal: scoreBountyContent('word', []),
})
const receipt = (key: string): CommandIdempotency => ({
  operation: 'test',
  key,
  hash: 'h',
  keyId: null,
  present: (body) => ({ status: 200, body: String(body) }),
})

/** Two nodes with equal clocks of their own, an agent that has posted a bounty and one that claims it. */
async function posted(t: Test) {
  const start = Date.now()
  const [clock, other] = [createTestClock(start), createTestClock(start)]
  const { sql, one } = await createTestActorNodePair(t, { clock, timerCommands })
  const two = createTestActorNode(t, sql, { clock: other, timerCommands })
  const [poster, claimer] = [await one.born(0.5), await one.born(0.5)]
  const { bounty } = await one.ask(poster, postBountyCommand, wanted)
  const pass = (ms: number) => [clock, other].forEach((hand) => hand.pass(ms))
  const claim = (at: TestActorNode, by = claimer) =>
    awaitErrorCodeOrOk(at.ask(bounty.bountyId, claimBountyCommand, claimOf(by)))
  const purses = async (at = two) =>
    [await readPromoBalance(at, poster), await readPromoBalance(at, claimer)].map(usdc)
  return { sql, one, two, clock, pass, poster, claimer, id: bounty.bountyId, claim, purses }
}
const usdc = (amount: bigint) => Number(amount) / 1e6
/** Claimed once; or back where it came from. */
const PAID = [0.5 - REWARD, 0.5 + REWARD]
const RETURNED = [0.5, 0.5]

const timersOf = async ({ sql, id }: Awaited<ReturnType<typeof posted>>) =>
  (await sql`select from timers where aggregate_id = ${id}`).count

t.test('words are compared independent of case, form and script', async (t) => {
  const same: [string, string][] = [
    ['straße', 'STRASSE'],
    ['ΟΔΟΣ', 'οδος'],
    ['e\u0301te\u0301', '\u00c9T\u00c9'],
    ['gas\u00adstation', 'GasStation'],
    ['ﬁle', 'FILE'],
    ['ｇａｓ', 'gas'],
    ['EIP-3009', 'eip 3009'],
  ]
  for (const [one, two] of same)
    t.strictSame(toNormalizedWords(one), toNormalizedWords(two), `${one} ${two}`)
  const found: [string, string, boolean][] = [
    ['the price of gas', 'gas', true],
    ['the price of gasoline', 'gas', false],
    ['a GAS-station', 'gas station', true],
    ['gas, and a station', 'gas station', false],
    ['価格は高い', '価格', true],
    ['格価', '価格', false],
    ['नमस्ते दुनिया', 'नमस्ते', true],
    ['नमस्ते', 'नमस', false],
    ['', 'gas', false],
  ]
  for (const [text, keyword, is] of found)
    t.equal(scoreBountyContent(text, [keyword]).missing.length === 0, is, `${keyword} in ${text}`)
  t.strictSame(scoreBountyContent('gas', ['fee', 'Gas', 'Tip']).missing, ['fee', 'Tip'])
  const heap = (marks: number) => toNormalizedWords(`a${'\u0316\u0301'.repeat(marks / 2)}b`)
  t.strictSame(heap(10_000), heap(30), 'marks beyond thirty on one letter are nothing')
  t.notMatch(heap(30), heap(28))
})

t.test('quality is one point per different word, plus variety', async (t) => {
  const words = (different: number, times = 1) =>
    Array.from({ length: different * times }, (_, at) => `w${at % different}`).join(' ')
  const figures: [string, number, number][] = [
    ['', 0, 0],
    ['...', 0, 0],
    ['one', 1, 20],
    ['one One ONE', 1, 13],
    [words(30), 30, 20],
    [words(30, 2), 30, 20],
    [words(30, 4), 30, 10],
    [words(80), 80, 20],
    [words(500), 80, 20],
    [words(1, 20_000), 1, 0],
  ]
  for (const [text, substance, variety] of figures) {
    const quality = substance + variety
    t.strictSame(scoreBountyContent(text, []), { missing: [], quality, substance, variety })
  }
})

t.test(`one of ${N} concurrent claims on two nodes is paid`, async (t) => {
  const made = await posted(t)
  const { one, two, claim, sql, id } = made
  const agents = await Promise.all(Array.from({ length: N }, () => one.born(0.1)))
  const answers = await Promise.all(
    agents.map((agent, at) => claim(at % 2 === 0 ? one : two, agent)),
  )
  t.equal(answers.filter((code) => code === 'ok').length, 1)
  t.equal(answers.filter((code) => code === 'already_claimed').length, N - 1)
  const winner = agents[answers.indexOf('ok')] as string
  t.equal(usdc(await readPromoBalance(two, winner)), 0.1 + REWARD)
  t.match(await sql`select claimed_by, status, closed_reason from bounties`, [
    { claimed_by: winner, status: 'claimed', closed_reason: 'claimed' },
  ])
  t.equal((await sql`select from transfers where debit like ${`bounty:${id}%`}`).count, 1)
  t.equal(await timersOf(made), 0)
  await assertNoInvariantViolations(t, sql)
})

t.test('a bounty expires once, on time, with a full refund', async (t) => {
  const made = await posted(t)
  const { one, two, claim, pass, purses, sql } = made
  pass(HOUR - 1)
  await Promise.all([one.alarms.sweep(), two.alarms.sweep()])
  t.match(await sql`select status from bounties`, [{ status: 'open' }])
  pass(1)
  t.equal(await claim(two), 'bounty_ended', 'the timer is late, the hour is over')
  await Promise.all([one.alarms.sweep(), two.alarms.sweep()])
  t.match(await sql`select status, closed_reason from bounties`, [
    { status: 'expired', closed_reason: 'expired' },
  ])
  t.equal(await claim(one), 'bounty_ended')
  t.strictSame(await purses(), RETURNED)
  t.equal(await timersOf(made), 0)
  await assertNoInvariantViolations(t, sql)
})

t.test('a bounty expires although every node was down', async (t) => {
  const made = await posted(t)
  const { one, two, pass, purses, clock, sql } = made
  for (const down of [one, two]) {
    await down.alarms.stop()
    await down.close()
  }
  pass(30 * HOUR)
  const third = createTestActorNode(t, sql, { clock, timerCommands })
  await third.alarms.sweep()
  t.strictSame(await purses(third), RETURNED)
  t.equal(await timersOf(made), 0)
  await assertNoInvariantViolations(t, sql)
})

t.test('a concurrent claim and expiry', async (t) => {
  t.test('if the expiry commits first, nothing is paid', async (t) => {
    const made = await posted(t)
    const { one, two, pass, claim, purses, sql } = made
    pass(HOUR - 1)
    const at = createTestPauseGate()
    one.faults.push(pauseBeforeCommit(at))
    const claiming = claim(one)
    await at.reached
    pass(1)
    await two.alarms.sweep()
    at.open()
    t.equal(await claiming, 'bounty_ended')
    t.strictSame(await purses(), RETURNED)
    await assertNoInvariantViolations(t, sql)
  })

  t.test('if the claim commits first, nothing is refunded', async (t) => {
    const made = await posted(t)
    const { one, two, clock, claim, purses, sql } = made
    // The clock of the first node is ahead.
    clock.pass(HOUR)
    const at = createTestPauseGate()
    one.faults.push(pauseBeforeCommit(at))
    const expiring = one.alarms.sweep()
    await at.reached
    t.equal(await claim(two), 'ok')
    at.open()
    await expiring
    t.strictSame(await purses(), PAID)
    t.equal(await timersOf(made), 0)
    await assertNoInvariantViolations(t, sql)
  })
})

t.test('of a concurrent claim and cancellation one succeeds', async (t) => {
  for (const first of ['claim', 'cancel'] as const) {
    const { one, two, poster, id, claim, purses, sql } = await posted(t)
    const cancel = (at: TestActorNode) =>
      awaitErrorCodeOrOk(at.ask(id, cancelBountyCommand, { agentId: poster }))
    const at = createTestPauseGate()
    one.faults.push(pauseBeforeCommit(at))
    const late = first === 'claim' ? cancel(one) : claim(one)
    await at.reached
    t.equal(await (first === 'claim' ? claim(two) : cancel(two)), 'ok')
    at.open()
    t.equal(await late, first === 'claim' ? 'already_claimed' : 'bounty_ended')
    t.strictSame(await purses(), first === 'claim' ? PAID : RETURNED)
    await assertNoInvariantViolations(t, sql)
  }
})

t.test('a commit whose reply was lost counts once', async (t) => {
  for (const fault of [loseConnectionBeforeCommit, loseReplyAfterCommit]) {
    const { one, poster, id, claim, purses, sql } = await posted(t)
    one.faults.push(fault)
    t.equal(await claim(one), 'ok')
    one.faults.push(fault)
    const { bounty } = await one.ask(poster, postBountyCommand, wanted)
    one.faults.push(fault)
    await one.ask(bounty.bountyId, cancelBountyCommand, { agentId: poster })
    t.strictSame(await purses(), PAID)
    t.strictSame(
      (await sql`select bounty_id, status from bounties order by 1`).map((row) => ({ ...row })),
      [
        { bounty_id: id, status: 'claimed' },
        { bounty_id: bounty.bountyId, status: 'expired' },
      ],
    )
    await assertNoInvariantViolations(t, sql)
  }
})

t.test(
  'after a node dies before its reply the same key gets the answer on another node',
  async (t) => {
    const { one, two, poster, claimer, id, purses, sql } = await posted(t)
    const dying = async (ask: (at: TestActorNode) => Promise<unknown>) => {
      const at = createTestPauseGate()
      one.faults.push(pauseAfterCommit(at))
      // Its reply is lost.
      const unheard = ask(one).catch(() => {})
      await at.reached
      const told = await ask(two).catch((error: unknown) => error)
      t.ok(told instanceof IdempotencyKeyAnsweredElsewhereError)
      at.open()
      await unheard
    }
    await dying((at) =>
      at.ask(id, claimBountyCommand, claimOf(claimer), { receipt: receipt('claim') }),
    )
    t.strictSame(await purses(), PAID)
    await dying((at) => at.ask(poster, postBountyCommand, wanted, { receipt: receipt('post') }))
    t.equal((await sql`select from bounties`).count, 2)
    await assertNoInvariantViolations(t, sql)
  },
)

t.test('a reward above the balance stores nothing', async (t) => {
  const { one, poster, sql } = await posted(t)
  const before = await sql`select count(*)::int as n from aggregates`
  const beyond = { ...wanted, reward: fromUsdc(0.250001) }
  const refused = await Promise.all(
    Array.from({ length: 8 }, () => awaitErrorCodeOrOk(one.ask(poster, postBountyCommand, beyond))),
  )
  t.ok(refused.every((code) => code === 'payment_required'))
  t.strictSame(await sql`select count(*)::int as n from aggregates`, before)
  t.equal(usdc(await readPromoBalance(one, poster)), 0.5 - REWARD)
  const racing = { ...wanted, reward: fromUsdc(0.1) }
  const codes = await Promise.all(
    Array.from({ length: 8 }, () => awaitErrorCodeOrOk(one.ask(poster, postBountyCommand, racing))),
  )
  t.equal(codes.filter((code) => code === 'ok').length, 2)
  t.equal(usdc(await readPromoBalance(one, poster)), 0.05)
  await assertNoInvariantViolations(t, sql)
})
