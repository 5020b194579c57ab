import t, { type Test } from 'tap'
import { ServiceError } from '../../../core/errors.ts'
import type {
  LlmAttemptCost,
  LlmReservationResult,
} from '../../../domain/llm-budget-reservation-and-cost-types.ts'
import { asMicros } from '../../../core/money.ts'
import { createLlmSpendStore } from '../../../persistence/calls/llm-spend-store.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import { openPostgresPool } from '../../../persistence/postgres/postgres-connection-pool.ts'
import { parseDatabaseUrl } from '../../../persistence/postgres/database-url.ts'
import {
  createLlmClient,
  type LlmDailyBudget,
} from '../../../providers/llm/llm-client-with-failover-and-budget.ts'
import type { LlmRequest } from '../../../providers/llm/llm-port.ts'
import { parseLlmProviders } from '../../../providers/llm/llm-provider-settings.ts'
import { createStreamingPostClient } from '../../../providers/upstream/streaming-post-client.ts'
import { createTestDatabase } from '../../support/postgres/test-database.ts'
import {
  startInProcessTestStation,
  type TestAgent,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'
import { startTestLlmApi, type LlmApiServer } from '../../support/upstreams/test-llm-api.ts'
import { waitUntilTrue } from '../../support/schedules/make-schedule-slots-due.ts'
import {
  TEST_AUTHOR_AGENT_ID,
  TOOL_CALL_ID,
  createManualClock,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const DAY = '2026-11-21'
const BOUNDS = { budget: asMicros(450n), share: asMicros(100n) }
const BESIDES = { callId: TOOL_CALL_ID, provider: 'local', model: 'm', at: Date.UTC(2026, 10, 21) }
const spent = (cost: bigint): LlmAttemptCost => ({
  ...BESIDES,
  outcome: 'ok',
  estimated: false,
  cost: asMicros(cost),
})
const of = (spenders: string[], amount = 10n, day = DAY) => ({
  day,
  spenders,
  amount: asMicros(amount),
})
const count = (all: readonly LlmReservationResult[], what: LlmReservationResult) =>
  all.filter((one) => one === what).length
const shares = async (sql: Sql) =>
  Object.fromEntries(
    (await sql`select spender, spent_micros from llm_caller_spend order by spender`).map((row) => [
      String(row['spender']),
      Number(row['spent_micros']),
    ]),
  )
const wholeDay = async (sql: Sql) => {
  const [row] = await sql`select spent_micros from llm_spend where day = ${DAY}`
  return Number(row?.['spent_micros'])
}

t.test('concurrent calls on all nodes stay within their share', async (t) => {
  const { sql, settings } = await createTestDatabase(t)
  const other = openPostgresPool(parseDatabaseUrl(settings.databaseUrl), { max: 8 })
  t.teardown(() => other.end({ timeout: 1 }))
  const [one, two] = [createLlmSpendStore(sql, BOUNDS), createLlmSpendStore(other, BOUNDS)]
  const node = (at: number) => (at % 2 === 0 ? one : two)
  const crowd = (spenders: (at: number) => string[]) =>
    Promise.all(Array.from({ length: 60 }, (_, at) => node(at).take(of(spenders(at)))))
  const alone = await crowd(() => ['greedy', 'home'])
  t.strictSame([count(alone, 'taken'), count(alone, 'share')], [10, 50])
  const many = await crowd((at) => [`agent ${at}`, 'flat'])
  t.equal(count(many, 'taken'), 10, 'many agents of one address have one share')
  // Ten calls each: no share is used up before the day is.
  const guests = await crowd((at) => [`guest ${at % 6}`, `place ${at % 6}`])
  t.strictSame([count(guests, 'taken'), count(guests, 'day')], [25, 35], 'then the day is used up')
  t.equal(await wholeDay(sql), 450)
  t.match(await shares(sql), { greedy: 100, home: 100, flat: 100 })
  t.equal(await one.take(of(['greedy'], 1n)), 'day')
})

t.test('unused reservations are returned to every budget, beside other reservations', async (t) => {
  const { sql } = await createTestDatabase(t)
  const { take, settle } = createLlmSpendStore(sql, BOUNDS)
  const taking = of(['one', 'home'], 90n)
  t.equal(await take(taking), 'taken')
  t.equal(await take(of(['two', 'home'], 20n)), 'share')
  await Promise.all([
    settle(taking, spent(15n)),
    ...Array.from({ length: 8 }, () => take(of(['three', 'flat']))),
  ])
  t.strictSame(await shares(sql), { flat: 80, home: 15, one: 15, three: 80 })
  t.equal(await wholeDay(sql), 95)
  t.equal(await take(of(['two', 'home'], 85n)), 'taken')
  t.equal(await take(of(['four'], 101n)), 'share', 'an amount beyond a share is never taken')
  t.equal(await take(of(['one'], 10n, '2026-11-22')), 'taken', 'a day is a day')
  await take(of(['one'], 10n, '2026-11-30'))
  const days = await sql`select distinct day::text from llm_caller_spend order by day`
  t.strictSame(
    days.flatMap(({ day }) => day),
    ['2026-11-30'],
    'old shares are forgotten',
  )
})

const CARD = { in_per_mtok: 1, out_per_mtok: 2, quality: 1 }
const posting = createStreamingPostClient('test')
t.teardown(() => posting.close())

/** Price of a model of the test provider: `say hello` with 100 tokens costs at most 203. */
function meter(house: Pick<LlmApiServer, 'providers'>, budget: Partial<LlmDailyBudget> = {}) {
  const kept: LlmAttemptCost[] = []
  const llm = createLlmClient({
    providers: parseLlmProviders(house.providers({ m: CARD }), () => null),
    postClient: posting,
    clock: createManualClock(),
    random: () => 0.5,
    timeouts: { firstTokenMs: 400, betweenTokensMs: 400 },
    log: (message, error) => t.comment(message, error),
    budget: {
      reserve: async () => 'taken',
      settle: async (_, one) => void kept.push(one),
      ...budget,
    },
  })
  if (llm === null) throw new Error('no models')
  const ask = (more: Partial<LlmRequest> = {}, signal = new AbortController().signal) =>
    llm.complete(
      {
        prompt: 'say hello',
        maxTokens: 100,
        preference: 'cheapest',
        caller: { agentId: TEST_AUTHOR_AGENT_ID, visitor: 'visitor-1', site: null },
        callId: TOOL_CALL_ID,
        ...more,
      },
      signal,
    )
  return { ask, kept }
}

t.test('a failed attempt costs what its provider reports, else the maximum', async (t) => {
  const house = await startTestLlmApi(t)
  const NUMBERS = { type: 'object', required: ['n'] } as const
  const cases = [
    // Ten tokens at 1 USD a million, three words at 2.
    ['mute', 'upstream_schema', 16n, false],
    ['strange', 'upstream_schema', 16n, false],
    ['open', 'upstream_timeout', 16n, false],
    ['ok', 'upstream_schema', 16n, false, { schema: NUMBERS }],
    ['cut', 'upstream_error', 203n, true],
    ['error', 'upstream_error', 203n, true],
    ['stall', 'upstream_timeout', 203n, true],
    ['hang', 'upstream_timeout', 203n, true],
    ['500', 'upstream_error', 0n, true],
  ] as const
  for (const [mood, outcome, cost, estimated, more] of cases) {
    house.behaviours['m'] = mood
    const { ask, kept } = meter(house)
    t.match(await awaitRejectionDetails(ask(more ?? {})), { code: outcome }, mood)
    const about = {
      callId: TOOL_CALL_ID,
      provider: 'local',
      model: 'm',
      at: Date.UTC(2026, 10, 21, 10),
    }
    t.strictSame(kept, [{ ...about, outcome, cost, estimated }], mood)
  }
})

t.test('a caller that disconnects is charged as well', async (t) => {
  const house = await startTestLlmApi(t)
  house.behaviours['m'] = 'stall'
  const leaving = new AbortController()
  const { ask, kept } = meter(house)
  const asked = awaitRejectionDetails(ask({}, leaving.signal))
  await waitUntilTrue('the model was asked', () => house.requestsByModel['m']?.length === 1)
  leaving.abort(new ServiceError('cancelled'))
  t.match(await asked, { code: 'cancelled' })
  t.match(kept, [{ outcome: 'cancelled', cost: 203n, estimated: true }])
})

t.test(
  'the error names the share if a cheaper model has daily budget left, else the daily budget',
  async (t) => {
    const house = await startTestLlmApi(t)
    const cards = { cheap: CARD, dear: { ...CARD, in_per_mtok: 9, out_per_mtok: 9 } }
    const both = { providers: () => house.providers(cards) }
    const told = async (cheap: LlmReservationResult, dear: LlmReservationResult) =>
      awaitRejectionDetails(
        meter(both, { reserve: async ({ amount }) => (amount > 300n ? dear : cheap) }).ask(),
      )
    const until = 14 * 3_600
    t.match(await told('share', 'day'), { code: 'model_share_exhausted', retry_after: until })
    t.match(await told('share', 'share'), {
      code: 'model_share_exhausted',
      tried: [{ model: 'cheap' }, { model: 'dear' }],
    })
    t.match(await told('day', 'day'), { code: 'provider_budget_exhausted', retry_after: until })
    t.equal(house.requestsByModel['cheap'], undefined)
  },
)

const FROM_HOME = { 'x-forwarded-for': '203.0.113.7' }
const FROM_AFAR = { 'x-forwarded-for': '203.0.113.99' }
/** 2,000 of its 10,000 micro-USD are a caller's. */
const SETTINGS = { LLM_DAILY_BUDGET_USD: '0.01' }
const BY = ['provider', 'model', 'outcome', 'estimated', 'cost_micros'] as const

const costs = (sql: Sql) => sql`select ${sql(BY)} from call_costs order by at, cost_micros`

t.test('over HTTP', async (t) => {
  const house = await startTestLlmApi(t)
  const cards = { cheap: CARD, spare: { ...CARD, out_per_mtok: 3 } }
  const settings = { ...SETTINGS, LLM_PROVIDERS: house.providers(cards) }
  const station = await startInProcessTestStation(t, settings)
  const beside = await startInProcessTestStation(t, settings, { database: station.database })
  const guest = await station.onboard()
  await attemptsAreKept(t, station, house, guest)
  await sharesHold(t, [station, beside], house, guest)
  await station.verify()
})

async function attemptsAreKept(
  t: Test,
  station: InProcessStation,
  house: LlmApiServer,
  guest: TestAgent,
) {
  await t.test(
    'every attempt is stored with its outcome, and the agent pays for none',
    async (t) => {
      const before = await station.balance(guest)
      house.behaviours['cheap'] = 'mute'
      const { body } = await station.call(guest, 'llm_routing', { prompt: 'say hello' }, FROM_AFAR)
      t.match(body, { model_used: 'local/spare', cost_usdc: 0.000019, _meta: { cost_usdc: 0 } })
      t.strictSame(
        (await costs(station.sql)).map((row) => Object.values(row)),
        [
          ['local', 'cheap', 'upstream_schema', false, 16n],
          ['local', 'spare', 'ok', false, 19n],
        ],
      )
      house.behaviours['spare'] = 'strange'
      const failed = await station.call(guest, 'llm_routing', { prompt: 'say hello' }, FROM_AFAR)
      t.match(failed, {
        status: 502,
        body: { code: 'upstream_schema', refunded: true, cost_usdc: 0 },
      })
      t.equal(await station.balance(guest), before)
      const [own] = await station.sql`
      select count(*)::int as attempts, sum(cost_micros)::bigint as cost from call_costs
       where call_id = ${String(failed.body['call_id'])}`
      t.strictSame({ ...own }, { attempts: 2, cost: 35n }, 'also of a call that failed')
      const [day] = await station.sql`select spent_micros from llm_spend`
      t.equal(day?.['spent_micros'], 70n, 'all of it counts in the day')
      t.match(await shares(station.sql), { [guest.id]: 70 })
    },
  )
}

async function sharesHold(
  t: Test,
  [station, beside]: readonly [InProcessStation, InProcessStation],
  house: LlmApiServer,
  guest: TestAgent,
) {
  await t.test('one agent cannot exhaust the daily budget of the others', async (t) => {
    const much = { prompt: 'say hello', max_tokens: 900 }
    house.behaviours['cheap'] = 'cut'
    // At most 1,804; its provider does not report the used tokens.
    const cut = await station.call(guest, 'llm_routing', much, FROM_HOME)
    t.match(cut, { status: 502, body: { refunded: true } })
    Object.assign(house.behaviours, { cheap: 'ok', spare: 'ok' })
    const again = { ...FROM_HOME, 'idempotency-key': 'the-same' }
    const refused = await beside.call(guest, 'llm_routing', much, again)
    t.match(refused, {
      status: 429,
      headers: { 'retry-after': /^\d+$/ },
      body: { code: 'model_share_exhausted', refunded: true, cost_usdc: 0 },
    })
    t.ok(refused.body.retry_after > 0 && refused.body.retry_after <= 86_400)
    const neighbour = await station.onboard()
    const near = await station.call(neighbour, 'llm_routing', much, FROM_HOME)
    t.match(near, { status: 429, body: { code: 'model_share_exhausted' } }, 'one address')
    t.match(await station.call(neighbour, 'llm_routing', much, FROM_AFAR), { status: 200 })
    await station.sql`delete from llm_caller_spend`
    const later = await station.call(guest, 'llm_routing', much, again)
    t.match(later, { status: 200, body: { model_used: 'local/cheap' } }, 'its key may try again')
  })
}
