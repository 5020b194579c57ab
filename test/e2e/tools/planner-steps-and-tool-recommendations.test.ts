import t from 'tap'
import { NATIVE_TOOLS } from '../../../tools/tool-catalogue.ts'
import { compileInputValidator } from '../../../tools/schema-validator.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

interface Planned {
  readonly detected_intent: string
  readonly confidence: number
  readonly steps: readonly {
    step: number
    tool: string
    price_usdc: number
    endpoint: string
    example: Record<string, unknown>
    fill_in: readonly string[]
  }[]
  readonly estimated_budget_usdc: number
  readonly quick_wins: readonly string[]
  readonly onboard_cmd: string
}

const PING = '/api/agent/ping-owner'
const EVERY = '/api/task/schedule'
const CREW = '/api/agent/crew'
const WALLET = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'
const SIGNED = `0x02f8b1827a69${'01'.repeat(90)}`
const HASH = `0x${'ab'.repeat(32)}`
const AGENT = '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4f'

/** A goal, and the expected steps with their inputs: tools by slug, routes by path. */
const GOALS: Readonly<Record<string, readonly (readonly [string, object])[]>> = {
  'Check the price of SOL and e-mail it to bob@example.com': [
    ['price_feed', { symbols: ['SOL'] }],
    ['email_send', { to: 'bob@example.com', body: '<what step 1 answered>' }],
  ],
  'Send an email to alice@corp.com saying "the build is green"': [
    ['email_send', { to: 'alice@corp.com', body: 'the build is green' }],
  ],
  'Search the web for the latest news about the Solana ETF and send me a summary by e-mail': [
    ['web_search', { query: 'the latest news about the Solana ETF' }],
    ['llm_routing', { prompt: /summary[^]*<what step 1 answered>$/ }],
    ['email_send', { to: /^<.*>$/, subject: 'The latest news about the Solana ETF' }],
  ],
  'Every morning read the top stories of Hacker News, summarize them and e-mail the digest to team@example.org':
    [
      ['social_oracle', { query: 'the top stories of Hacker News' }],
      ['llm_routing', {}],
      ['email_send', { to: 'team@example.org' }],
      [EVERY, { interval: '1d', tool: 'social_oracle', params: { query: /Hacker News/ } }],
    ],
  'Monitor the price of ETH every 20 minutes and notify me if it drops below 2500': [
    ['price_feed', { symbols: ['ETH'] }],
    [PING, {}],
    [EVERY, { interval: '30m', tool: 'price_feed', params: { symbols: ['ETH'] } }],
  ],
  'Get the liquidity and whale flows of FOOBAR on base': [
    ['onchain_insight', { query: 'FOOBAR', chain: 'base' }],
  ],
  [`Is the wallet ${WALLET} a whale, and what does it hold on base?`]: [
    ['wallet_investigate', { address: WALLET, chains: ['base'] }],
  ],
  'Summarize https://example.com/blog/post and save it in my vault': [
    ['agent_see', { url: 'https://example.com/blog/post' }],
    ['llm_routing', { prompt: /^Summarize https:.*post\n/ }],
    ['vault_write', { content: '<what steps 1 and 2 answered>' }],
  ],
  'Scrape the product prices from https://shop.example.com/list and put them into a CSV': [
    ['agent_see', { url: 'https://shop.example.com/list', extract: ['prices'] }],
    ['code_sandbox', {}],
  ],
  'Fact check: the Eiffel Tower is 330 metres tall': [
    ['hallucination_pill', { claim: 'the Eiffel Tower is 330 metres tall' }],
  ],
  'Ask other agents whether the Foobar bridge is safe': [
    ['hive_consensus', { thesis: 'the Foobar bridge is safe' }],
  ],
  [`Tell agent ${AGENT} that the job is done`]: [
    ['agent_ping', { target_agent_id: AGENT, message: 'the job is done' }],
  ],
  'Remember that my API limit is 20 requests a second': [
    ['vault_write', { content: 'my API limit is 20 requests a second' }],
  ],
  'Buy the cheapest flight to Paris next month': [['web_search', { query: /flight to Paris/ }]],
  'Find restaurants near me that are open on Sunday': [['web_search', { query: /^restaurants/ }]],
  'Compare Arbitrum and Optimism for gas costs': [
    ['deep_search', { query: 'Arbitrum and Optimism for gas costs' }],
  ],
  'Find e-mail addresses of the founders on https://startup.example.com/team': [
    ['agent_see', { url: 'https://startup.example.com/team' }],
  ],
  'Run a competitor crew on stripe.com': [[CREW, { type: 'competitor', domain: 'stripe.com' }]],
  'Have a crew write a newsletter about Base for DeFi developers': [
    [CREW, { type: 'newsletter', topic: 'Base', targetAudience: 'DeFi developers' }],
  ],
  'Use the newsletter crew on account abstraction for wallet developers and e-mail it to team@example.org':
    [
      [CREW, { topic: 'account abstraction', targetAudience: 'wallet developers' }],
      ['email_send', { to: 'team@example.org', body: '<what step 1 answered>' }],
    ],
  'Write cold emails to heads of logistics at small companies, offering a route planner that saves fuel':
    [
      [
        CREW,
        {
          type: 'cold_email',
          icpDescription: 'heads of logistics at small companies',
          offerDescription: 'a route planner that saves fuel',
        },
      ],
    ],
  'Let a crew find out how account abstraction pays gas fees': [
    [CREW, { type: 'custom', goal: 'find out how account abstraction pays gas fees' }],
  ],
  'Every week run the newsletter crew about Base for DeFi developers': [
    [CREW, { topic: 'Base' }],
    [EVERY, { interval: '1w', tool: 'crew', params: { type: 'newsletter' }, budget_usdc: 0.151 }],
  ],
  'Get a crew to look at notion.so, a competitor of ours': [[CREW, { domain: 'notion.so' }]],
  'I want a crew of agents to research zk rollups': [[CREW, { goal: 'research zk rollups' }]],
  'Do you remember my API limit?': [['vault_query', {}]],
  'Set the cold e-mail crew on dentists': [[CREW, { type: 'cold_email', offerDescription: /^</ }]],
  'Which films did the crew of Apollo 13 inspire?': [['web_search', {}]],
  'Broadcast this signed transaction': [['tx_broadcast', { raw_tx: '<the signed transaction>' }]],
  [`Push my raw tx ${SIGNED} to arbitrum`]: [
    ['tx_broadcast', { chain: 'arbitrum', raw_tx: SIGNED }],
  ],
  'Relay the presigned transaction on optimism and remember it for later': [
    ['tx_broadcast', { chain: 'optimism' }],
    ['vault_write', {}],
  ],
  [`Who sent the transaction ${HASH}?`]: [['web_search', {}]],
  'What is the capital of Australia?': [['web_search', { query: 'the capital of Australia' }]],
  'What will the weather be like in Berlin tomorrow?': [['web_search', {}]],
  'Tell me about the history of the Eiffel Tower': [
    ['web_search', { query: 'the history of the Eiffel Tower' }],
  ],
  'Please look on the internet for cheap hotels in Lisbon': [
    ['web_search', { query: /cheap hotels in Lisbon/ }],
  ],
  'How many ounces are in a pound?': [['web_search', { query: /ounces are in a pound/ }]],
  'Tell me a joke about cats': [['llm_routing', { prompt: 'Tell me a joke about cats' }]],
  'Translate "good morning" into French': [['llm_routing', {}]],
}

/** Goals that need no tool. */
const TALK = [
  'Hello there, how are you?',
  'hello hello',
  'Good morning, my friend!',
  'Thanks a lot, that was great',
  'What time is it?',
  'What can you do for me?',
  'Hi! Is anybody there?',
  'Nice to meet you, who are you?',
]

interface Recommended {
  readonly recommendations: readonly { tool: string; confidence: number; reason: string }[]
}
interface Listed {
  readonly tools: readonly { slug: string; price_usdc: number }[]
}

t.test('planner and recommendations', async (t) => {
  const station = await startInProcessTestStation(t, { RATE_LIMITS: 'on' })
  const { ask, call } = station
  let visitors = 0
  const plan = (task: unknown, from = `198.51.100.${(visitors += 1)}`) =>
    ask('POST', '/api/agent/plan', { json: { task }, headers: { 'x-forwarded-for': from } })

  await t.test('a plan uses existing tools, and its prices add up', async (t) => {
    const answer = await plan('Check the price of BTC and ETH and tell me what to buy')
    const body = answer.body as unknown as Planned
    t.match(answer, { status: 200, body: { matched: true, note: null } })
    t.match(body.detected_intent, /^(prices|trading)$/)
    t.match(body.steps[0], { tool: 'price_feed', example: { tool: 'price_feed' } })
    t.ok(body.quick_wins.includes('price_feed is free 10 times a day, without a key.'))
    t.match(body.onboard_cmd, /^curl -s -X POST http:\/\/gas\.test\/api\/onboard /)
    t.ok(body.confidence > 0 && body.confidence <= 1)
    const catalogue = (await ask('GET', '/api/tools')).body as unknown as Listed
    const prices = new Map<string, number>(
      catalogue.tools.map(({ slug, price_usdc }) => [slug, price_usdc]),
    )
    let total = 0
    for (const [at, step] of body.steps.entries()) {
      t.equal(step.step, at + 1)
      t.equal(step.price_usdc, prices.get(step.tool), step.tool)
      total += Math.round(step.price_usdc * 1e6)
    }
    t.equal(body.estimated_budget_usdc, total / 1e6)
    t.ok(body.steps.length <= 5)
  })

  await t.test('steps cover the goal in its own words', async (t) => {
    const guest = await station.onboard()
    const inputs = new Map(
      NATIVE_TOOLS.map(({ slug, input }) => [slug, compileInputValidator(input)]),
    )
    for (const [goal, expected] of Object.entries(GOALS)) {
      const { steps } = (await plan(goal)).body as unknown as Planned
      const by = steps.map(({ tool, endpoint }) => tool ?? endpoint.replace('http://gas.test', ''))
      t.strictSame(
        by,
        expected.map(([name]) => name),
        goal,
      )
      for (const [at, { tool, example, fill_in }] of steps.entries()) {
        t.match(example, expected[at]?.[1] ?? {}, `${goal}: ${by[at]}`)
        t.equal(fill_in.length > 0, JSON.stringify(example).includes('<'))
        if (fill_in.length > 0) continue
        const { tool: named, ...fields } = example
        if (tool === null) {
          const json = by[at] === CREW ? { ...example, dry_run: true } : example
          const made = await ask('POST', by[at] ?? '', { key: guest.key, json })
          t.equal(made.status, 200, made.text)
        } else t.strictSame([named, inputs.get(tool)?.(fields)], [tool, []], `${goal}: it fits`)
      }
    }
  })

  await t.test('small talk matches no tool, paid or free', async (t) => {
    for (const said of TALK) {
      const { body } = await plan(said)
      t.match(body, { matched: false, estimated_budget_usdc: 0, note: /asks for nothing/ }, said)
      t.match(body['steps'], [{ tool: null, endpoint: 'http://gas.test/api/tools' }])
      t.equal((body['steps'] as unknown[]).length, 1)
    }
  })

  await t.test('words of the description match a tool without a pattern', async (t) => {
    const { body: answer } = await plan('bootstrap a specialist from one idea')
    const body = answer as unknown as Planned
    t.ok(
      body.steps.some(({ tool }) => tool === 'genesis_forge'),
      JSON.stringify(body.steps),
    )
  })

  await t.test('an unknown goal gets general steps, with a notice', async (t) => {
    const answer = await plan('xyzzy plugh frobnicate quux')
    const body = answer.body as unknown as Planned
    t.match(answer, { status: 200, body: { matched: false, note: /No tool matches/ } })
    t.match(body, { confidence: 0, detected_intent: 'general' })
    t.strictSame(
      body.steps.map(({ tool }) => tool),
      [null, 'hive_read', 'hive_write'],
    )
  })

  await t.test('a task has 10 to 500 characters, and an address 10 plans an hour', async (t) => {
    for (const task of ['x'.repeat(9), 'x'.repeat(501), 7, undefined]) {
      t.match(await plan(task), { status: 400, body: { code: 'invalid_input' } })
    }
    for (const task of ['x'.repeat(10), 'x'.repeat(500)]) t.equal((await plan(task)).status, 200)
    const from = '203.0.113.9'
    for (let n = 0; n < 10; n += 1) t.equal((await plan('Read a web page', from)).status, 200)
    const refused = await plan('Read a web page', from)
    t.match(refused, { status: 429, body: { code: 'rate_limited' } })
    t.ok(refused.body.retry_after > 3_000)
    t.equal((await plan('Read a web page')).status, 200)
  })

  await t.test('an agent is recommended the tools of similar agents', async (t) => {
    const [her, ...others] = await Promise.all(Array.from({ length: 6 }, () => station.onboard()))
    const of = (id: string, key?: string) => ask('GET', `/api/recommendations/${id}`, { key })
    if (her === undefined) throw new Error('no agent was onboarded')
    for (const one of [her, ...others]) await call(one, 'hive_read', { query: 'gas' })
    for (const one of others) await call(one, 'hive_trending')
    for (const one of others.slice(0, 1)) {
      await call(one, 'x402_parse', { body: { x402Version: 1, accepts: [] } })
      await call(one, 'agent_reputation', { agent_id: her.id }, { 'x-ghost-mode': 'stealth' })
    }
    const answer = await of(her.id, her.key)
    const body = answer.body as unknown as Recommended
    t.match(answer, { status: 200, body: { agent_id: her.id, based_on: { tools_used: 1 } } })
    const [first, second] = body.recommendations
    t.match(first, { tool: 'hive_trending', price_usdc: 0.005, reason: /^5 of 6 agents/ })
    t.ok(first !== undefined && first.confidence > 0.5 && first.confidence < 1)
    t.match(second, { tool: 'x402_parse' })
    const named = body.recommendations.map(({ tool }) => tool)
    t.notOk(named.includes('hive_read'), 'it calls that already')
    const hidden = body.recommendations.find(({ tool }) => tool === 'agent_reputation')
    t.notMatch(hidden?.reason ?? '', /agents that call/, 'what was called in private is not told')
    const fresh = await station.onboard()
    const begin = (await of(fresh.id, fresh.key)).body as unknown as Recommended
    t.ok(begin.recommendations.length >= 3)
    t.match(begin.recommendations[0], { confidence: 0.1 })
    // Strangers, other agents and a key bound to a Backpack do not see the tools that she calls.
    const bound = await ask('POST', '/api/onboard', {
      json: { name: 'bounded', agent_key: { tools: ['hive_read'] } },
    })
    const boundKey = String(bound.body['agent_key'])
    await ask('POST', '/api/refuel', { key: boundKey, json: { tool: 'hive_read', query: 'gas' } })
    const general = (await of(fresh.id)).body as unknown as Recommended
    t.match(general.recommendations[0], { confidence: 0.1, reason: /^It is free/ })
    for (const told of [
      await of(her.id),
      await of(her.id, others[0]?.key),
      await of(bound.body.agent_id, boundKey),
    ])
      t.match(told, {
        status: 200,
        body: { recommendations: general.recommendations, based_on: { tools_used: 0 } },
      })
    t.match(await of(bound.body.agent_id, bound.body.api_key), {
      body: { based_on: { tools_used: 1 } },
    })
    t.match(await of('018f6f7a-0000-7000-8000-000000000000'), { status: 404 })
    t.match(await of('me'), { status: 400 })
  })
})
