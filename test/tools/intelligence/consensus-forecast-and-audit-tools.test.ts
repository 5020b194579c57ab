import { execFileSync } from 'node:child_process'
import { Script } from 'node:vm'
import t, { type Test } from 'tap'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import {
  betaBinomialEstimate,
  holtForecast,
} from '../../../tools/intelligence/hive-evidence/holt-and-beta-binomial-forecast.ts'
import { AGENT_FRAMEWORKS } from '../../../tools/intelligence/genesis-forge/agent-blueprint.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'

const DAY = 86_400_000

interface Weighed {
  readonly consensus: string
  readonly confidence: number
  readonly weight_adjusted_score: number
  readonly evidence: readonly unknown[]
}
interface Forecast {
  readonly activity: {
    readonly history: readonly { entries: number }[]
    readonly forecast: readonly { expected: number; low: number }[]
  }
}
interface Audit {
  readonly tools: unknown
  readonly health_score: number
  readonly findings: readonly {
    rule: string
    severity: string
    subject: string | null
    saving_usdc_per_month: number | null
  }[]
}
interface Evolution {
  readonly patch: unknown
  readonly saving_usdc_per_month: number
  readonly settings: { readonly schedules: Record<string, unknown> }
  readonly changes: readonly { apply: { method: 'POST' | 'PATCH'; path: string; body: object } }[]
}
interface Bundle {
  readonly tools: readonly unknown[]
  readonly system_prompt: string
  readonly files: readonly { path: string; content: string }[]
  readonly onboard: { readonly body: unknown }
}

t.test('a known trend is found, and its bounds cover most later values', async (t) => {
  const rising = holtForecast(
    Array.from({ length: 30 }, (_, day) => 2 + day),
    5,
  )
  t.ok(rising.slope > 0.8)
  const [next] = rising.forecast
  t.ok(Math.abs((next?.expected ?? 0) - 32) < 1, String(next?.expected))
  const flat = holtForecast(Array<number>(20).fill(4), 3)
  t.strictSame(flat.forecast[2], { expected: 4, low: 4, high: 4 })
  const falling = holtForecast([9, 8, 7, 6, 5, 4, 3, 2, 1, 0], 10)
  t.ok(
    falling.slope < -0.5 &&
      falling.forecast.every(({ expected, low }) => expected >= 0 && low >= 0),
  )
  // A seeded walk around 10: nine of ten later values are within the bounds.
  let seed = 7
  const noise = () => ((seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647) * 6 - 3
  const walk = Array.from({ length: 400 }, () => 10 + noise())
  let held = 0
  for (let at = 60; at < 400; at += 1) {
    const [bounds] = holtForecast(walk.slice(at - 60, at), 1).forecast
    const value = walk[at] ?? 0
    if (bounds !== undefined && bounds.low <= value && value <= bounds.high) held += 1
  }
  t.ok(held / 340 > 0.85 && held / 340 < 1, `${held} of 340`)
  t.match(betaBinomialEstimate(0, 0), { probability: 0.5 })
  t.match(betaBinomialEstimate(8, 0), { probability: 0.9 })
  t.match(betaBinomialEstimate(0, 8), { probability: 0.1 })
})

t.test('over HTTP without models', async (t) => {
  const station = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '10' })
  const { sql, call } = station
  const guest = await station.onboard()
  const authors = await Promise.all(Array.from({ length: 4 }, () => station.onboard()))

  /** Writes an entry as it was `daysAgo` days ago. */
  const plant = async (
    author: TestAgent | undefined,
    content: string,
    daysAgo = 0,
    confidence = 0.9,
  ) => {
    const at = new Date(Date.now() - daysAgo * DAY)
    await sql`
      insert into hive_entries (id, agent_id, content, namespace, tags, confidence, is_public, call_id, at)
      values (${newUuidV7(at.getTime())}, ${author?.id ?? ''}, ${content}, 'base', '{}', ${confidence},
              true, ${newUuidV7(Date.now())}, ${at})`
  }

  await t.test('consensus of agents with one vote each', async (t) => {
    const thesis = 'Sequencer fees of Base will fall in December'
    await plant(authors[0], 'Sequencer fees of Base will fall in December, as every year.')
    await plant(authors[1], 'In December the sequencer fees of Base will decrease again.')
    await plant(authors[2], 'I am sure Base sequencer fees drop in December.')
    const answer = await call(guest, 'hive_consensus', { thesis })
    const body = answer.body as unknown as Weighed
    t.match(answer, { status: 200, body: { consensus: 'agree', agent_count: 3 } })
    t.match(answer.body, { method: 'statistical', _meta: { cost_usdc: 0.08 }, thesis })
    t.ok(body.confidence > 0.5 && body.weight_adjusted_score === 1)
    t.match(body.evidence[0], { stance: 'agree', namespace: 'base' })
    for (let n = 0; n < 9; n += 1) {
      await plant(authors[3], `Note ${n}: sequencer fees of Base will not fall in December.`)
    }
    const loud = await call(guest, 'hive_consensus', { question: thesis })
    const oneVoiceAnAuthor = { consensus: 'agree', agent_count: 4, entry_count: 12 }
    t.match(loud.body, oneVoiceAnAuthor)
    t.ok((loud.body as unknown as Weighed).confidence < body.confidence)
    const denied = await call(guest, 'hive_consensus', { thesis: `${thesis} is false` })
    t.match(denied.body, { consensus: 'disagree' })
  })

  await t.test('old entries and entries of low confidence weigh less', async (t) => {
    const thesis = 'The Foobar bridge is safe'
    await plant(authors[0], 'The Foobar bridge is safe, I use it daily.', 300, 0.3)
    await plant(authors[1], 'The Foobar bridge is not safe: its keys are shared.', 1, 1)
    const { body } = await call(guest, 'hive_consensus', { thesis })
    t.match(body, { consensus: 'disagree', agent_count: 2 })
  })

  await t.test('without evidence the answer is uncertain and free', async (t) => {
    const before = await station.balance(guest)
    const thesis = 'Quokkas prefer eucalyptus marmalade'
    const { status, body } = await call(guest, 'hive_consensus', { thesis })
    t.match(
      { status, body },
      {
        status: 200,
        body: { consensus: 'uncertain', confidence: 0, evidence: [], _meta: { cost_usdc: 0 } },
      },
    )
    t.equal(await station.balance(guest), before)
  })

  await t.test('one author, or authors without a side, give no consensus', async (t) => {
    const before = await station.balance(guest)
    const asked = async (thesis: string) => (await call(guest, 'hive_consensus', { thesis })).body
    const free = { consensus: 'uncertain', confidence: 0, enough_evidence: false }
    const waived = { cost_usdc: 0, waived: /^Not enough evidence: / }

    const opinion = 'The Zubble rollup is profitable'
    for (const said of [`${opinion} since March.`, `I can confirm that ${opinion}.`])
      await plant(authors[0], said)
    t.match(await asked(opinion), {
      ...free,
      summary: /^Not enough evidence: 2 entries speak of it, 1 of 1 author takes a side/,
      evidence: [{ stance: 'agree' }, { stance: 'agree' }],
      agent_count: 1,
      _meta: waived,
    })
    for (const at of [0, 1])
      await plant(authors[at], `Is anything known of the accurate Wibble oracle ${at}?`)
    t.match(await asked('The Wibble oracle is accurate'), { ...free, _meta: waived })
    t.equal(await station.balance(guest), before)
    await plant(authors[1], 'The Zubble rollup is not profitable at all.')
    t.match(await asked(opinion), { enough_evidence: true, _meta: { cost_usdc: 0.08 } })
  })

  await t.test('a forecast counts authors, and attention by days', async (t) => {
    const query = 'Monad throughput will increase'
    for (const [day, often] of [5, 4, 3, 3, 2, 2, 1, 1].entries()) {
      for (let n = 0; n < often; n += 1)
        await plant(
          authors[(day + n) % 3],
          `Day ${day}, ${n}: Monad throughput will increase.`,
          day,
        )
    }
    const answer = await call(guest, 'hive_forecast', { query, horizon_days: 3 })
    t.match(answer, {
      status: 200,
      body: {
        sample_size: 21,
        agent_count: 3,
        probability: 0.8,
        method: 'statistical',
        activity: { trend: 'rising' },
        _meta: { cost_usdc: 0.05 },
      },
    })
    const { history, forecast } = (answer.body as unknown as Forecast).activity
    t.equal(history.length, 14)
    t.strictSame(
      history.slice(-2).map(({ entries }) => entries),
      [4, 5],
    )
    t.equal(forecast.length, 3)
    const [next] = forecast
    t.ok(next !== undefined && next.expected > 3 && next.low <= next.expected)
    const few = await call(guest, 'hive_forecast', { query: 'The Foobar bridge will close' })
    t.match(few, { status: 422, body: { code: 'no_evidence', needed: 5, refunded: true } })
  })

  await t.test('an audit and an evolution without calls are refunded', async (t) => {
    for (const tool of ['self_audit', 'agent_evolve']) {
      const fresh = await station.onboard()
      t.match(await call(fresh, tool), { status: 422, body: { code: 'no_evidence' } }, tool)
      t.match(await call(null, tool), { status: 401 }, tool)
      t.equal(await station.balance(fresh), 10)
    }
  })

  await audits(t, station, authors[0])
  await forge(t, station)
  await withoutModel(t, station)
  await station.verify()
})

async function audits(t: Test, { call, sql, ask, onboard }: Station, other: TestAgent | undefined) {
  const agent = await onboard()
  const target = { target_agent_id: other?.id ?? '', message: 'hello' }
  const pack = await ask('POST', '/api/backpack/create', {
    key: agent.key,
    json: { agent_name: 'worker' },
  })
  const inPack = { 'x-backpack-id': String(pack.body.backpack_id) }
  for (const key of ['a', 'b', 'c'])
    await call(agent, 'agent_ping', target, { ...inPack, 'idempotency-key': key })
  // No price source answers here: these fail.
  for (let n = 0; n < 6; n += 1) await call(agent, 'price_feed', { query: 'BTC' })

  await t.test('an audit reports spending, failures and repetitions', async (t) => {
    const answer = await call(agent, 'self_audit', { days: 7 })
    const body = answer.body as unknown as Audit
    t.equal(answer.status, 200)
    t.match(answer.body, {
      calls: 9,
      spent_usdc: 0.015,
      success_rate: 0.3333,
      burn: { usdc_per_day: 0.015, balance_usdc: 9.985, days_left: 665.7 },
      method: 'rules',
    })
    t.match(body.tools, [
      { tool: 'agent_ping', calls: 3, spent_usdc: 0.015, repeated_calls: 2, failures: [] },
      {
        tool: 'price_feed',
        calls: 6,
        success_rate: 0,
        failures: [{ code: 'price_unavailable', count: 6 }],
      },
    ])
    t.match(
      body.findings.map(({ rule, severity, subject }) => [rule, severity, subject]),
      [
        ['failing_tool', 'high', 'price_feed'],
        ['duplicate_inputs', 'medium', 'agent_ping'],
        ['concentrated_spend', 'low', 'agent_ping'],
        ['no_limits', 'low', null],
      ],
    )
    t.equal(body.health_score, 100 - 25 - 10 - 3 - 3)
    t.equal(body.findings[1]?.saving_usdc_per_month, 0.042857)
  })

  await t.test('an evolution is a patch of the settings and can be applied', async (t) => {
    const made = await ask('POST', '/api/task/schedule', {
      key: agent.key,
      json: { name: 'watch', interval: '1h', tool: 'hive_trending', budget_usdc: 0.5 },
    })
    const schedule = String(made.body['id'] ?? made.body['schedule_id'])
    // Seven runs that all found the same.
    for (let n = 1; n <= 7; n += 1) {
      const slot = new Date(Date.now() - n * 3_600_000)
      await sql`
        insert into schedule_runs values (${schedule}, ${slot}, ${agent.id}, null, true, null, 6000,
          500000, '{"same":true}', ${slot})`
    }
    const answer = await call(agent, 'agent_evolve', { days: 10 })
    const body = answer.body as unknown as Evolution
    t.equal(answer.status, 200)
    t.match(body.patch, [
      { op: 'replace', path: /^\/backpacks\/bp_\w+\/fuse\/per_day_usdc$/, value: 0.19 },
      { op: 'replace', path: /^\/backpacks\/bp_\w+\/tools$/, value: ['agent_ping'] },
      { op: 'replace', path: `/schedules/${schedule}/enabled`, value: false },
    ])
    t.equal(body.saving_usdc_per_month, 0.126)
    t.strictSame(body.settings.schedules[schedule], {
      tool: 'hive_trending',
      enabled: true,
      budget_usdc: 0.5,
    })
    for (const { apply } of body.changes) {
      const applied = await ask(apply.method, apply.path, { key: agent.key, json: apply.body })
      t.equal(applied.status, 200, apply.path)
    }
    const again = await call(agent, 'agent_evolve', { days: 10 })
    t.strictSame(again.body['patch'], [], 'nothing is left to propose')
    t.match(again.body['_meta'], { cost_usdc: 0, waived: 'nothing is proposed' })
    // Nothing was paid for these.
    await sql`delete from schedule_runs where schedule_id = ${schedule}`
  })
}
type Station = Awaited<ReturnType<typeof startInProcessTestStation>>

async function forge(t: Test, { call, sql, ask, onboard }: Station) {
  await t.test('every framework has a bundle, and each of its files parses', async (t) => {
    const agent = await onboard()
    const nasty =
      'An agent that says "hi" \\ `${process.exit()}` \'\'\' """ \n # on Base gas prices'
    const programs: string[] = []
    for (const framework of AGENT_FRAMEWORKS) {
      const answer = await call(agent, 'genesis_forge', { prompt: nasty, framework })
      const body = answer.body as unknown as Bundle
      t.equal(answer.status, 200, framework)
      if (answer.status !== 200) continue
      t.match(answer.body, { framework, method: 'template', _meta: { cost_usdc: 1 } })
      t.ok(body.tools.length > 0 && body.system_prompt.includes('on Base gas prices'))
      const file = (ending: string) =>
        body.files.find(({ path }) => path.endsWith(ending))?.content ?? ''
      for (const ending of ['tools.json', 'plan.json', 'onboard.json'])
        t.ok(JSON.parse(file(ending)))
      const [js, python] = [file('.cjs'), file('.py')] as const
      if (js !== '') t.ok(new Script(js))
      else programs.push(python)
      const { status: born } = await ask('POST', '/api/onboard', { json: body.onboard.body })
      t.equal(born, 201, 'its onboarding body is taken')
    }
    const check = 'import ast, json, sys; [ast.parse(one) for one in json.load(sys.stdin)]'
    t.doesNotThrow(() =>
      execFileSync('python3', ['-c', check], { input: JSON.stringify(programs) }),
    )
    t.equal(programs.length, 5)
    const kept = await sql`select creator_id, framework from forged_bundles order by id`
    t.equal(kept.length, AGENT_FRAMEWORKS.length)
    t.equal(kept[0]?.['creator_id'], agent.id)
  })
}

async function withoutModel(t: Test, station: Station) {
  const guest = await station.onboard()
  const ask = (prompt: string, more = {}) => station.call(guest, 'llm_routing', { prompt, ...more })
  const EXTRACTED = { model_used: 'embedded/extractive-1', degraded: true, cost_usdc: 0 }

  await t.test('sums, summaries and keywords are labelled as extractive', async (t) => {
    const sum = await ask('What is (17 + 4) * 2.5?')
    t.match(sum.body, { ...EXTRACTED, text: '52.5', method: 'arithmetic', tokens_used: 0 })
    const story =
      'Gas on Base stays low on weekends. Batch transfers on Base are cheapest on Sundays. Weekday gas on Base is three times as dear.'
    const short = await ask(`Summarize this in one sentence: ${story}`, { max_tokens: 40 })
    const text = String(short.body['text'])
    t.ok(story.includes(text) && text.length < story.length)
    t.match(short.body, { ...EXTRACTED, method: 'summary' })
    const words = await ask(`List the keywords of this text:\n${story}`)
    t.match(words.body, { ...EXTRACTED, method: 'keywords', text: /base/ })
    const half = await ask(`Summarize: ${story}`)
    t.ok(String(half.body['text']).length < story.length, 'a summary is shorter than its text')
    const bare = await ask('Please summarise: Gas is low on Sundays.')
    t.match(bare.body, { ...EXTRACTED, method: 'summary', text: 'Gas is low on Sundays.' })
    const plain = await ask(`Summarize the following text. ${story}`)
    t.match(plain.body, { ...EXTRACTED, method: 'summary' })
    t.ok(story.includes(String(plain.body['text']).slice(0, 30)))
  })

  await t.test('a summary without text names the missing input', async (t) => {
    const detail = async (prompt: string) => {
      const { status, body } = await ask(prompt)
      t.equal(status, 503, prompt)
      return String(body['detail'])
    }
    t.match(await detail('Summarize this for me please'), /The text itself is missing/)
    t.match(await detail('Summarize: !!!'), /The text itself is missing/)
    t.match(await detail('Summarize https://example.com/a/b'), /No page is read here/)
    t.notMatch(await detail('Write a poem about the sea.'), /missing|page/)
  })

  await t.test('a matching Hive sentence answers the prompt', async (t) => {
    const content =
      'Bananas are yellow in most places. Withdrawals through the Arbitrum bridge take seven days to arrive.'
    const { body: entry } = await station.call(guest, 'hive_write', { content })
    const { body } = await ask('How long do withdrawals through the Arbitrum bridge take?')
    const text = 'Withdrawals through the Arbitrum bridge take seven days to arrive.'
    t.match(body, { ...EXTRACTED, method: 'hive', sources: [entry['id']], text })
  })

  await t.test('any other prompt is a 503 before a hold', async (t) => {
    const { status, body } = await ask('Write a poem about the sea.')
    t.match(
      { status, body },
      { status: 503, body: { code: 'provider_not_configured', requires: ['LLM_PROVIDERS'] } },
    )
    const [kept] = await station.sql`
      select count(*)::int from calls where tool = 'llm_routing' and status = 'failed'`
    t.equal(kept?.['count'], 0)
    const entry = await station.ask('GET', '/api/tools/llm_routing')
    const availability = { available: true, mode: 'degraded', requires: ['LLM_PROVIDERS'] }
    t.match(entry.body, { availability })
  })
}
