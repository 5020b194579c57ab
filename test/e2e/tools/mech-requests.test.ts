import { createHash } from 'node:crypto'
import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** Calls in the request format of a mech marketplace. */

const main = await startInProcessTestStation(t)
const request = (json: object, key?: string, headers = {}) =>
  main.ask('POST', '/mech/request', { key, json, headers })

t.test('the metadata names every listed tool with its input and output', async (t) => {
  const { body } = await main.ask('GET', '/mech/metadata')
  const { tools } = (await main.ask('GET', '/api/tools')).body as unknown as {
    tools: { slug: string; name: string }[]
  }
  const slugs = tools.map(({ slug }) => slug)
  t.strictSame(body['tools'], slugs)
  t.strictSame(Object.keys(body['toolMetadata'] as object), slugs)
  t.match(body, {
    name: 'Gas Station',
    fee: { amount: '0.01', counts: false },
    toolMetadata: {
      hive_read: {
        input: { type: 'text', description: /`query`/, schema: { type: 'object' } },
        output: { type: 'object', schema: { type: 'object' } },
      },
      agent_ping: {
        input: { description: 'The prompt is a JSON object with the fields of agent_ping.' },
      },
    },
  })
})

t.test('free tools answer anybody, others a key; else 402', async (t) => {
  const free = await request({ prompt: 'gas on Base', tool: 'hive-read', nonce: '7f3c' })
  const text = JSON.stringify(['hive_read', 'gas on Base', '7f3c'])
  t.match(free, { status: 200, body: { prompt: 'gas on Base', tool: 'hive_read', cost: 0 } })
  t.equal(free.body['requestId'], createHash('sha256').update(text).digest('hex'))
  t.match(free.body['result'], { entries: [] })

  const paid = { prompt: '{"limit": 3}', tool: 'hive_trending' }
  const refused = await request(paid)
  t.match(refused, { status: 402, body: { code: 'payment_required' } })
  const guest = await main.onboard()
  const keyed = { 'idempotency-key': 'once' }
  const [first, again] = [
    await request({ ...paid, nonce: 'n' }, guest.key, keyed),
    await request({ ...paid, nonce: 'n' }, guest.key, keyed),
  ]
  t.match(first, { status: 200, body: { cost: 0.005, cost_usdc: 0.005, nonce: 'n' } })
  t.strictSame(again.body, first.body)
  t.equal(await main.balance(guest), 0.495, 'one charge')
})

t.test('what no tool understands is refused', async (t) => {
  const wrong: [object, number, string][] = [
    [{ prompt: 'x', tool: 'no_such_tool' }, 404, 'unknown_tool'],
    [{ prompt: 'x', tool: 'agent_ping' }, 400, 'invalid_input'],
    [{ prompt: '{"limit": "three"}', tool: 'hive_trending' }, 400, 'invalid_input'],
    [{ prompt: '{"__proto__": {"limit": 3}}', tool: 'hive_trending' }, 400, 'invalid_input'],
    [{ prompt: '{"dry_run": true}', tool: 'hive_trending' }, 402, 'payment_required'],
    [{ prompt: ' ', tool: 'hive_read' }, 400, 'invalid_input'],
    [{ tool: 'hive_read' }, 400, 'invalid_input'],
    [{ prompt: 'x', tool: 'hive_read', fee: 0.01 }, 400, 'invalid_input'],
  ]
  for (const [body, status, code] of wrong)
    t.match(await request(body), { status, body: { code } }, JSON.stringify(body))
  t.equal((await request({ prompt: 'x', tool: 'hive_read' }, 'gas_wrong')).status, 401)
})

t.test('the ledger is sound', () => main.verify())
