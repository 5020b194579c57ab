import t from 'tap'
import { decideCommunityToolVerificationCommand } from '../../../actors/commands/community-tool-commands.ts'
import { COMMUNITY_TOOLS_TOPIC } from '../../../domain/community-tool-record.ts'
import { connectReadyWebSocket } from '../../support/http/websocket-and-sse-clients.ts'
import {
  paymentSignatureHeader,
  startTestPaymentChain,
} from '../../support/payments/test-station-with-payment-chain.ts'
import {
  createScheduleSlotDriver,
  waitUntilTrue,
} from '../../support/schedules/make-schedule-slots-due.ts'
import { startTestCommunityToolMarket } from '../../support/tools/test-community-tool-market.ts'
import { sendJson } from '../../support/tools/test-tool-builder-server.ts'

/** One community tool, bought through every door: the same price, the same call of its builder, the same shares. */

const ROME = { city: 'Rome' }
const CALL = { tool: 'weather-now', ...ROME }
const PRICE = 10_000n

const till = await startTestPaymentChain(t)
const market = await startTestCommunityToolMarket(t, {}, till.settings)
const { builder, station, ask, seller, buyer, open } = market
const { key } = buyer
let status = 200
builder.on('/weather', (_, reply) => sendJson(reply, { celsius: 21.5 }, status))
await open('weather-now', '/weather')
const slots = createScheduleSlotDriver(t, station.database)
const socket = await connectReadyWebSocket(t, station.url, key)
const payer = await till.createPayer(5n * PRICE)
const paid = () => paymentSignatureHeader(payer, till, PRICE)

/** What a door answers: the result of the tool, and what it says that the call has cost. */
interface Bought {
  readonly result: unknown
  readonly costUsdc: unknown
}

type Reply = Awaited<ReturnType<typeof ask>>
const ofReply = ({ body }: Reply): Bought => ({ result: body, costUsdc: body._meta?.cost_usdc })
const post = async (path: string, json: object, headers: Record<string, string> = {}) =>
  ofReply(await ask('POST', path, { key, json, headers }))

async function throughTask(): Promise<Bought> {
  const task = await ask('POST', '/api/task/start', { key, json: { name: 'x', budget_usdc: 0.01 } })
  const bought = await post('/api/refuel', CALL, { 'x-task-id': task.body.task_id })
  const { body } = await ask('POST', '/api/task/end', { key, json: { task_id: task.body.task_id } })
  t.match(body, { spent_usdc: 0.01 }, 'its task counts the price')
  return bought
}

async function throughBackpack(): Promise<Bought> {
  const json = { agent_name: 'scout', tools: ['weather_now'], fuse: { per_day_usdc: 0.01 } }
  const pack = await ask('POST', '/api/backpack/create', { key, json })
  t.strictSame(pack.body['tools'], ['weather-now'])
  const headers = { 'x-backpack-id': pack.body.backpack_id }
  const bought = await post('/api/refuel', CALL, headers)
  const more = await ask('POST', '/api/refuel', { key, json: CALL, headers })
  t.match(more, { status: 403, body: { code: 'FUSE_TRIPPED' } }, 'its fuse counts the price')
  return bought
}

async function throughPipeline(): Promise<Bought> {
  const { body } = await ask('POST', '/api/pipeline', { key, json: { calls: [CALL] } })
  t.match(body, { total_cost_usdc: 0.01, succeeded: 1 })
  const [one] = body['results'] as { result: unknown; cost_usdc: number }[]
  return { result: one?.result, costUsdc: one?.cost_usdc }
}

async function throughStream(payment: Record<string, string> | null = null): Promise<Bought> {
  const payer = payment === null ? { key } : { headers: payment }
  const { frames } = await ask('POST', '/api/refuel/stream', { ...payer, json: CALL })
  const data = (name: string) =>
    frames.find(({ event }) => event === name)?.data as Record<string, unknown> | undefined
  const meta = data('result')?.['_meta'] as { cost_usdc: number } | undefined
  return { result: data('result'), costUsdc: meta?.cost_usdc }
}

async function throughMcp(): Promise<Bought> {
  const params = { name: 'weather-now', arguments: ROME }
  const { body } = await ask('POST', '/mcp?community=1', {
    key,
    json: { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
    headers: {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
    },
  })
  const { structuredContent, _meta } = body['result'] as {
    structuredContent: unknown
    _meta: Record<string, { cost_usdc: number }>
  }
  return { result: structuredContent, costUsdc: _meta['gas/call']?.cost_usdc }
}

async function throughSocket(): Promise<Bought> {
  const frame = await socket.ask({ type: 'refuel', ...CALL })
  return ofReply({ body: frame['result'] } as Reply)
}

async function throughSchedule(): Promise<Bought> {
  const json = { interval: '5m', tool: 'weather_now', params: ROME, budget_usdc: 0.011 }
  const { body } = await ask('POST', '/api/task/schedule', { key, json })
  const path = `/api/task/schedule/${String(body['schedule_id'])}`
  await slots.pass(String(body['schedule_id']))
  const look = async () => (await ask('GET', path, { key })).body
  await waitUntilTrue('a run', async () => (await look())['runs'] === 1)
  const last = (await look())['last_result'] as Record<string, unknown>
  await ask('DELETE', path, { key })
  return { result: last['result'] ?? last, costUsdc: last['cost_usdc'] }
}

/** The step that a plan names, called as it says. */
async function throughPlan(): Promise<Bought> {
  const accepted = { accepted: true, reason: null }
  await station.station.actors.ask(
    'tool:weather-now',
    decideCommunityToolVerificationCommand,
    accepted,
  )
  await station.station.plane.bus.publish(COMMUNITY_TOOLS_TOPIC, 'weather-now')
  const isVerified = async () =>
    /"verified":true/.test((await ask('GET', '/api/tools/weather-now')).text)
  await waitUntilTrue('the mark `verified`', isVerified)
  const json = { task: 'Look up the weather: what is the temperature of the city of Rome?' }
  const { body } = await ask('POST', '/api/agent/plan', { json })
  t.match(body, { detected_intent: 'tools', estimated_budget_usdc: 0.01 })
  t.match(body['steps'], [{ tool: 'weather-now', price_usdc: 0.01, fill_in: ['city'] }])
  const [step] = body['steps'] as { endpoint: string; example: object }[]
  return post(new URL(step?.endpoint ?? '').pathname, { ...step?.example, ...ROME })
}

const DOORS: Readonly<Record<string, () => Promise<Bought>>> = {
  invoke: () => post('/api/tools/weather-now/invoke', ROME),
  refuel: () => post('/api/refuel', CALL),
  'refuel by its name with an underscore': () =>
    post('/api/refuel', { ...CALL, tool: 'weather_now' }),
  'its address': () => post('/api/t/weather-now', ROME),
  pipeline: throughPipeline,
  stream: () => throughStream(),
  'a task': throughTask,
  'a Backpack': throughBackpack,
  MCP: throughMcp,
  WebSocket: throughSocket,
  'a schedule': throughSchedule,
  'a plan': throughPlan,
  'x402 with a key': async () => post('/api/t/weather-now', ROME, await paid()),
  'x402 without a key': async () =>
    ofReply(await ask('POST', '/api/t/weather-now', { json: ROME, headers: await paid() })),
  'x402 without a key, as a stream': async () => throughStream(await paid()),
}

/** The fee of a run, which the station gets beside the price. */
const SCHEDULE_FEE = 1_000n

for (const [door, buy] of Object.entries(DOORS))
  t.test(`the tool is bought through ${door}`, async (t) => {
    const before = builder.received.length
    const { result, costUsdc } = await buy()
    const extra = door === 'a schedule' ? SCHEDULE_FEE : 0n
    t.match(result, { celsius: 21.5 })
    t.equal(costUsdc, Number(PRICE + extra) / 1e6, 'the price that the caller is told')
    const [call, ...more] = builder.received.slice(before)
    t.strictSame(more, [], 'one call of the builder')
    t.strictSame(JSON.parse(call?.body ?? '{}'), ROME)
    const callId = String(call?.headers['x-call-id'])
    const parts = await station.sql<{ kind: string; credit: string; amount: bigint }[]>`
      select kind, credit, amount_micros as amount from transfers
       where call_id = ${callId} and kind in ('share', 'charge', 'fee') order by kind`
    const fee = ((PRICE + extra) * 18n) / 100n
    t.strictSame(
      parts.map(({ kind, credit, amount }) => [kind, credit, amount]),
      [
        ['charge', 'platform:tools', PRICE + extra - 6_000n - fee],
        ['fee', 'treasury:fees', fee],
        ['share', `agent:${seller.id}:cash`, 6_000n],
      ],
      'of the price 60 % for the builder, 22 % for the tools, 18 % for the treasury',
    )
    const [row] = await station.sql<{ counted: boolean }[]>`
      select counted from community_tool_calls where call_id = ${callId}`
    t.equal(row?.counted, door !== 'a schedule', 'a schedule has no address, so it does not count')
  })

t.test('a batch without a key refuses the tool, with or without a payment', async (t) => {
  const before = builder.received.length
  const calls = [{ tool: 'hive_trending' }, CALL]
  for (const headers of [{}, await paid()]) {
    const refused = await ask('POST', '/api/pipeline', { json: { calls }, headers })
    t.match(refused, {
      status: 400,
      headers: { 'content-type': /^application\/problem\+json/ },
      body: {
        code: 'invalid_input',
        errors: [
          {
            pointer: '/calls/1/tool',
            detail: /sold by another agent.*call it alone, or with an API key/,
          },
        ],
      },
    })
  }
  t.equal(builder.received.length, before, 'its builder is not called')
  const [row] = await station.sql<{ claimed: number }[]>`
    select count(*)::int as claimed from settlements`
  t.equal(row?.claimed, 3, 'no payment is claimed but those of the calls above')
})

t.test('a payment that settled before its call failed is said to be credited', async (t) => {
  status = 500
  const before = await station.balance(buyer)
  const failed = await ask('POST', '/api/t/weather-now', { key, json: ROME, headers: await paid() })
  status = 200
  t.match(failed, {
    status: 502,
    body: { refunded: false, cost_usdc: 0, credited_usdc: 0.01, settlement_id: /^stl_/ },
  })
  t.match(failed.body['detail'], /it is in your credits\./)
  t.notMatch(failed.text, /Nothing was charged/)
  t.equal(await station.balance(buyer), Math.round((before + 0.01) * 1e6) / 1e6)
})

t.test('the ledger adds up', async () => station.verify())
