import { inspect } from 'node:util'
import t from 'tap'
import { loadConfig } from '../../../app/config.ts'
import {
  startTestLlmApi,
  TEST_LLM_REPORTED_COST_USD,
  SAMPLE_LLM_MODEL_SETTINGS,
  type LlmApiServer,
} from '../../support/upstreams/test-llm-api.ts'
import type { LlmSpendReservation } from '../../../domain/llm-budget-reservation-and-cost-types.ts'
import { explainNoExtractiveAnswer } from '../../../providers/llm/extractive-answer.ts'
import {
  createLlmClient,
  type LlmClientDeps,
} from '../../../providers/llm/llm-client-with-failover-and-budget.ts'
import type { LlmRequest } from '../../../providers/llm/llm-port.ts'
import { parseLlmProviders } from '../../../providers/llm/llm-provider-settings.ts'
import { createStreamingPostClient } from '../../../providers/upstream/streaming-post-client.ts'
import { calculateExpression } from '../../../providers/text/calculator.ts'
import { parseSseData } from '../../../providers/llm/sse-parser.ts'
import {
  TEST_AUTHOR_AGENT_ID,
  TOOL_CALL_ID,
  createManualClock,
  awaitRejectionDetails,
} from '../../support/tools/test-tool-context.ts'

const BY_AUTHOR = {
  caller: { agentId: TEST_AUTHOR_AGENT_ID, visitor: 'visitor-1', site: null },
  callId: TOOL_CALL_ID,
}
const QUIET = new AbortController().signal
const posting = createStreamingPostClient('test')
t.teardown(() => posting.close())

/** For models that never answer, or stop in the middle. */
const SHORT_TIMEOUTS = { firstTokenMs: 400, betweenTokensMs: 400 }

/** Models of the test provider as a tool gets them, without a station. */
function models(house: LlmApiServer, given: Partial<LlmClientDeps> & { cards?: object } = {}) {
  const cards = given.cards ?? SAMPLE_LLM_MODEL_SETTINGS
  const taken: LlmSpendReservation[] = []
  const settled: [taken: number, cost: number][] = []
  const llm = createLlmClient({
    providers: parseLlmProviders(
      house.providers(cards as typeof SAMPLE_LLM_MODEL_SETTINGS),
      () => null,
    ),
    postClient: posting,
    clock: createManualClock(),
    random: () => 0.5,
    timeouts: { firstTokenMs: 60_000, betweenTokensMs: 60_000 },
    log: (message, error) => t.comment(message, error),
    budget: {
      reserve: async (taking) => (taken.push(taking), 'taken'),
      settle: async ({ amount }, { cost }) => void settled.push([Number(amount), Number(cost)]),
    },
    ...given,
  })
  if (llm === null) throw new Error('no models')
  const ask = (request: Partial<LlmRequest> = {}, tokens?: string[]) =>
    llm.complete(
      { prompt: 'say hello', maxTokens: 100, preference: 'cheapest', ...BY_AUTHOR, ...request },
      QUIET,
      (delta) => void tokens?.push(delta),
    )
  return { llm, ask, settled }
}

t.test('each preference has its order, and fastest uses measured latencies', async (t) => {
  const house = await startTestLlmApi(t)
  const clock = createManualClock()
  const { ask } = models(house, { clock })
  t.match(await ask(), { model: 'cheap', provider: 'local', text: 'hello hello hello' })
  t.match(await ask({ preference: 'smartest' }), { model: 'clever' })
  // The reply itself advances the clock by the latency of the model.
  const paces: Record<string, number> = { cheap: 300, middling: 30, clever: 900 }
  house.answer = ({ model }) => {
    clock.pass(paces[model] ?? 0)
    return 'one two three'
  }
  const fastest = async () => (await ask({ preference: 'fastest' })).model
  const first = new Set<string>()
  // Cheap and clever were measured at no time at all: everybody is tried, then measured.
  for (let n = 0; n < 12; n += 1) first.add(await fastest())
  t.equal(first.size, 3)
  t.equal(await fastest(), 'middling')
  paces['middling'] = 3_000
  for (let n = 0; n < 8; n += 1) await fastest()
  t.equal(await fastest(), 'cheap', 'an average that moves')
})

t.test('one in twenty requests for the fastest model chooses at random', async (t) => {
  const house = await startTestLlmApi(t)
  const chances = [0.049, 0.99, 0.051]
  const { ask } = models(house, { random: () => chances.shift() ?? 0.5 })
  t.equal((await ask({ preference: 'fastest' })).model, 'clever')
  t.equal((await ask({ preference: 'fastest' })).model, 'cheap')
})

t.test(
  'another model answers after 429, 5xx, a rejected key, an invalid reply or a timeout',
  async (t) => {
    const house = await startTestLlmApi(t)
    for (const mood of ['429', '500', 'badkey', 'garbage', 'drift', 'hang', 'empty'] as const) {
      house.behaviours['cheap'] = mood
      const { ask } = models(house, mood === 'hang' ? { timeouts: SHORT_TIMEOUTS } : {})
      const tokens: string[] = []
      t.match(await ask({}, tokens), { model: 'middling', text: 'hello hello hello' }, mood)
      t.equal(tokens.join(''), 'hello hello hello')
    }
    house.behaviours['cheap'] = 'refuses'
    const refused = await awaitRejectionDetails(models(house).ask())
    t.match(refused, { code: 'upstream_error', upstream_status: 400, model: 'cheap' })
  },
)

t.test('no other model starts after a token was sent', async (t) => {
  const house = await startTestLlmApi(t)
  for (const [mood, code] of [
    ['cut', 'upstream_error'],
    ['error', 'upstream_error'],
    ['stall', 'upstream_timeout'],
  ] as const) {
    house.behaviours['cheap'] = mood
    const { ask, settled } = models(house, mood === 'stall' ? { timeouts: SHORT_TIMEOUTS } : {})
    const tokens: string[] = []
    t.match(await awaitRejectionDetails(ask({}, tokens)), { code, model: 'cheap' }, mood)
    t.strictSame(tokens, ['hello '])
    t.equal(settled.length, 1)
    t.ok((settled[0]?.[1] ?? 0) > 0, 'what was said may be billed, and counts')
  }
  t.equal(house.requestsByModel['middling'], undefined)
})

t.test('if all models fail the error names them, and a rate limit has a retry time', async (t) => {
  const house = await startTestLlmApi(t)
  Object.assign(house.behaviours, { cheap: '429', middling: '429', clever: '429' })
  t.match(await awaitRejectionDetails(models(house).ask()), {
    code: 'upstream_rate_limited',
    retry_after: 7,
    tried: [{ model: 'cheap' }, { model: 'middling' }, { model: 'clever' }],
  })
  house.behaviours['clever'] = '500'
  t.match(await awaitRejectionDetails(models(house).ask()), {
    code: 'upstream_error',
    tried: [{ code: 'upstream_rate_limited' }, {}, { code: 'upstream_error' }],
  })
})

t.test('a model that fails repeatedly is skipped and tried again later', async (t) => {
  const house = await startTestLlmApi(t)
  const clock = createManualClock()
  house.behaviours['cheap'] = '500'
  const { ask } = models(house, { clock })
  for (let n = 0; n < 7; n += 1) await ask()
  t.equal(house.requestsByModel['cheap']?.length, 5)
  house.behaviours['cheap'] = 'ok'
  clock.pass(16_000)
  t.match(await ask(), { model: 'cheap' })
})

t.test('the cost is the reported one, else computed from tokens, else an estimate', async (t) => {
  const house = await startTestLlmApi(t)
  const cards = { priced: {}, plain: {}, uncounted: {} }
  const one = (mood: 'priced' | 'plain' | 'uncounted') => {
    house.behaviours[mood] = mood
    return models(house, { cards: { [mood]: cards[mood] } })
  }
  t.match(await one('priced').ask(), {
    costUsd: TEST_LLM_REPORTED_COST_USD,
    estimated: false,
    mode: 'fixture',
  })
  const table = one('plain')
  // Ten tokens at 1 USD a million and three at 2.
  t.match(await table.ask(), {
    costUsd: 0.000016,
    tokens: { prompt: 10, completion: 3, total: 13 },
  })
  // Taken: 3 tokens of prompt and 100 of answer.
  t.strictSame(table.settled, [[203, 16]])
  t.match(await one('uncounted').ask(), { costUsd: 0.000013, estimated: true })
})

t.test('a JSON answer is validated, and another model is tried for it', async (t) => {
  const house = await startTestLlmApi(t)
  const schema = {
    type: 'object',
    required: ['n'],
    properties: { n: { type: 'integer' } },
  } as const
  house.answer = ({ model }) => (model === 'cheap' ? '{"n":"no"}' : '```json\n{"n": 4}\n```')
  const tokens: string[] = []
  const answer = await models(house).ask({ schema, system: 'Count.' }, tokens)
  t.match(answer, { model: 'middling', json: { n: 4 } })
  t.strictSame(tokens, [])
  t.match(house.requestsByModel['cheap']?.[0]?.body, {
    response_format: { type: 'json_object' },
    messages: [{ role: 'system', content: /^Count\.[^]*"integer"/ }, { role: 'user' }],
  })
})

t.test(
  'calls per caller and prompt lengths are limited, and the operator may disable this',
  async (t) => {
    const house = await startTestLlmApi(t)
    const clock = createManualClock()
    const { llm, ask } = models(house, { clock })
    t.match(await awaitRejectionDetails(ask({ prompt: 'x'.repeat(70_000) })), {
      code: 'invalid_input',
    })
    for (let n = 0; n < 29; n += 1) await ask()
    t.match(await awaitRejectionDetails(ask()), {
      code: 'rate_limited',
      limit: 30,
      retry_after: 60,
    })
    t.match(await ask({ caller: { agentId: null, visitor: 'visitor-1', site: null } }), {
      model: 'cheap',
    })
    clock.pass(60_000)
    t.match(await ask(), { model: 'cheap' })
    house.behaviours['cheap'] = 'hang'
    const leaving = new AbortController()
    const request = { prompt: 'hm', maxTokens: 5, preference: 'cheapest', ...BY_AUTHOR } as const
    const left = llm.complete(request, leaving.signal)
    leaving.abort(new Error('left'))
    await t.rejects(left, /left/)
    t.equal(house.requestsByModel['middling'], undefined)
  },
)

t.test('providers are configured: invalid ones are named, keys are never shown', async (t) => {
  const one = (more: object) =>
    JSON.stringify([
      {
        id: 'a',
        base_url: 'https://a.test/v1/',
        models: [{ id: 'm', in_per_mtok: 1, out_per_mtok: 2, quality: 1, ctx: 1000 }],
        ...more,
      },
    ])
  const refused = ['x', '{}', one({ id: 'A b' }), one({ models: [] }), one({ key_env: 'UNSET' })]
  for (const LLM_PROVIDERS of refused)
    t.throws(
      () => loadConfig({ LLM_PROVIDERS }),
      /LLM_PROVIDERS must be JSON of the form in docs\/configuration\.md/,
    )
  const { llm } = loadConfig({ LLM_PROVIDERS: one({ key_env: 'MY_KEY' }), MY_KEY: 'sk-secret' })
  t.equal(llm.providers[0]?.key?.reveal(), 'sk-secret')
  t.notMatch(inspect(llm, { depth: 9 }) + JSON.stringify(llm.providers), /sk-secret/)
  t.strictSame(loadConfig({}).llm.providers, [])
})

t.test('events are parsed across any chunk boundaries', async (t) => {
  const text = ': hi\n\ndata: {"a":\r\ndata:"é😀"}\r\n\r\nevent: x\ndata: two\n\ndata: last'
  const bytes = new TextEncoder().encode(text)
  for (const size of [1, 3, 7, bytes.length]) {
    const pieces = async function* () {
      for (let at = 0; at < bytes.length; at += size) yield bytes.slice(at, at + size)
    }
    const found: string[] = []
    for await (const data of parseSseData(pieces(), 1_000)) found.push(data)
    t.strictSame(found, ['{"a":\n"é😀"}', 'two', 'last'], `pieces of ${size}`)
    await t.rejects(parseSseData(pieces(), 10).next(), { code: 'response_too_large' })
  }
})

t.test('arithmetic is exact and recognised only in arithmetic prompts', async (t) => {
  const cases: Record<string, string | null> = {
    '0.1 + 0.2': '0.3',
    '(17 + 4) * 2.5': '52.5',
    '2^10 - 1,000': '24',
    '-3 * -(2 - 5)': '-9',
    '15% * 80': '12',
    '1/3': 'about 0.333333333333',
    '2^-2': '0.25',
    '1/0': null,
    '9^9^9^9': null,
    '10^999': null,
    '2 +': null,
    '(1': null,
    hello: null,
    '42': null,
    'process.exit()': null,
  }
  for (const [text, value] of Object.entries(cases)) t.equal(calculateExpression(text), value, text)
})

t.test('a text without blanks is processed in linear time', async (t) => {
  // Tried from each of its letters, it would take longer than any test may.
  const word = '1'.repeat(1_000_000)
  t.match(explainNoExtractiveAnswer(`summarize: ${word}`), /The text itself is missing/)
  t.match(explainNoExtractiveAnswer('summarize: https://gas.test/a'), /No page is read here/)
})
