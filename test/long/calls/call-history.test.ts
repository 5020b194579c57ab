import t from 'tap'
import { countReplies, type TestReply } from '../../support/http/test-http-client.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import { readWholeAccountStatement } from '../../support/ledger/account-statement-assertions.ts'

const TOOL = 'hive_trending'
const PRICE = 0.005

const main = await startInProcessTestStation(t)
const beside = await spawnSecondNode(t, main)
const get = (path: string, key?: string) => main.ask('GET', path, { key })

interface Listed {
  readonly call_id: string
  readonly status: string
  readonly tool: string
  readonly error_code: string | null
  readonly ghost: boolean
}
const callsOf = async ({ key }: TestAgent, query = ''): Promise<Listed[]> =>
  (await get(`/api/calls?limit=200${query}`, key)).body['calls'] as Listed[]

t.test('an agent sees only its own calls, filtered as requested', async (t) => {
  const [ann, bob] = [await main.onboard(), await main.onboard()]
  const task = await main.ask('POST', '/api/task/start', {
    key: ann.key,
    json: { name: 'x', budget_usdc: 0.1 },
  })
  const taskId = task.body.task_id
  const paid = await main.call(ann, TOOL, {}, { 'x-task-id': taskId })
  const ghost = await main.call(ann, TOOL, {}, { 'x-ghost-mode': 'stealth' })
  const free = await main.call(ann, 'hive_read', { query: 'gas' })
  const failed = await main.call(ann, 'price_feed', { query: 'BTC' })
  t.not(failed.status, 200)
  await main.call(bob, TOOL)

  const all = await callsOf(ann)
  const ids = all.map(({ call_id: id }) => id)
  t.strictSame([...ids].sort().reverse(), ids, 'the newest first')
  for (const { body } of [paid, ghost]) t.ok(ids.includes(body._meta.call_id))
  t.equal(all.filter((call) => call.ghost).length, 1, 'its own private calls too')
  t.ok(
    all.some(({ status }) => status === 'failed'),
    `failed ones too: ${failed.text}`,
  )
  t.match(await callsOf(ann, `&task_id=${taskId}`), [{ call_id: paid.body._meta.call_id }])
  t.ok((await callsOf(ann, `&tool=${TOOL}`)).every(({ tool }) => tool === TOOL))
  const failures = await callsOf(ann, '&status=failed')
  t.ok(failures.length > 0 && failures.every(({ error_code: code }) => code !== null))
  t.ok((await callsOf(ann, '&status=ok')).every(({ status }) => status === 'ok'))
  const today = new Date().toISOString().slice(0, 10)
  t.equal((await callsOf(ann, `&from=${today}&to=${today}`)).length, all.length, 'a day is whole')
  t.strictSame(await callsOf(ann, '&to=2026-01-01'), [])

  const seen: string[] = []
  for (let cursor: unknown = ''; cursor !== null;) {
    const at = cursor === '' ? '' : `&cursor=${cursor as string}`
    const { body } = await get(`/api/calls?limit=1${at}`, ann.key)
    seen.push(...(body['calls'] as Listed[]).map(({ call_id: id }) => id))
    cursor = body['next_cursor']
  }
  t.strictSame(seen, ids, 'page by page, each once')

  const one = await get(`/api/calls/${paid.body._meta.call_id}`, ann.key)
  const { receipt } = paid.body._meta
  t.match(one.body, { tool: TOOL, cost_usdc: PRICE, task_id: taskId, status: 'ok', receipt })
  const lost = failures[0]?.call_id
  t.match((await get(`/api/calls/${lost}`, ann.key)).body, { status: 'failed', receipt: null })
  for (const id of [paid.body._meta.call_id, 'x', '00000000-0000-7000-8000-000000000000'])
    t.match(await get(`/api/calls/${id}`, bob.key), {
      status: 404,
      body: { code: 'call_not_found' },
    })
  t.equal((await get('/api/calls')).status, 401)
  t.equal(free.status, 200)
})

t.test('a receipt verifies for any holder and reveals nothing else', async (t) => {
  const ann = await main.onboard()
  const { body } = await main.call(ann, TOOL)
  const { receipt, call_id: callId } = body._meta
  t.match(receipt, /^gr1\.[\w-]+$/)
  const found = await get(`/api/receipts/${receipt}`)
  t.match(found, {
    status: 200,
    body: { call_id: callId, tool: TOOL, cost_usdc: PRICE, rail: 'credits', status: 'ok' },
  })
  t.notOk(found.text.includes(ann.id), 'not who called')
  const raw = Buffer.from(receipt.slice(4), 'base64url')
  t.notOk(raw.toString('hex').includes(ann.id.replaceAll('-', '')), 'nor does the receipt itself')
  const anonymous = await main.call(null, 'hive_read', { query: 'gas' })
  t.match(await get(`/api/receipts/${anonymous.body._meta.receipt}`), {
    status: 200,
    body: { call_id: anonymous.body._meta.call_id, cost_usdc: 0, rail: 'free' },
  })

  const other = (await main.call(ann, TOOL)).body._meta.receipt
  const spoilt = [...raw.keys()].map((at) => {
    const bytes = Buffer.from(raw)
    bytes[at] = (bytes[at] ?? 0) ^ 1
    return `gr1.${bytes.toString('base64url')}`
  })
  const mixed = Buffer.concat([
    raw.subarray(0, 32),
    Buffer.from(other.slice(4), 'base64url').subarray(32),
  ])
  const wrong = [
    ...spoilt,
    `gr1.${mixed.toString('base64url')}`,
    receipt.slice(0, 47),
    `${receipt}A`,
    `${receipt}.x`,
    receipt.replace('gr1', 'gr2'),
    'gr1.',
    'x',
  ]
  const answers = new Set<string>()
  for (const one of wrong) {
    const { status, body: told } = await get(`/api/receipts/${one}`)
    answers.add(`${status} ${told.code} ${String(told['detail'])}`)
  }
  t.equal(answers.size, 1, [...answers].join('\n'))
  t.match([...answers][0], /^404 receipt_not_found/)
})

t.test('calls rejected by a budget at their end do not count in calls_total', async (t) => {
  const ann = await main.onboard()
  const { body } = await main.ask('POST', '/api/task/start', {
    key: ann.key,
    json: { name: 'x', budget_usdc: 20 * PRICE },
  })
  const headers = { 'x-task-id': body.task_id }
  const answers: TestReply[] = await Promise.all(
    Array.from({ length: 40 }, (_, at) =>
      (at % 2 === 0 ? main : beside).call(ann, TOOL, {}, headers),
    ),
  )
  t.equal(countReplies(answers)['200'], 20)
  const { body: balance } = await get('/api/credits/balance', ann.key)
  t.match(balance['usage'], { calls_total: 20, calls_today: 20, spent_total_usdc: 20 * PRICE })
  const ok = await callsOf(ann, '&status=ok')
  t.equal(ok.length, 20)
  t.equal((await callsOf(ann)).length - ok.length, (await callsOf(ann, '&status=failed')).length)
  await main.verify()
})

t.test('a bound key sees the calls and the statement of its Backpack only', async (t) => {
  const owner = await main.onboard()
  const made = await main.ask('POST', '/api/backpack/create', {
    key: owner.key,
    json: { agent_name: 'packed' },
  })
  const backpackId = made.body.backpack_id
  const bound = await main.ask('POST', '/api/keys', {
    key: owner.key,
    json: { backpack_id: backpackId },
  })
  const agent = { id: owner.id, key: bound.body.api_key }
  const outside = (await main.call(owner, TOOL)).body._meta.call_id
  const inside: string[] = []
  for (let call = 0; call < 3; call += 1)
    inside.unshift((await main.call(agent, TOOL)).body._meta.call_id)

  t.strictSame(
    (await callsOf(agent)).map(({ call_id: id }) => id),
    inside,
  )
  t.equal((await callsOf(owner)).length, 4)
  t.equal((await get(`/api/calls/${outside}`, agent.key)).status, 404)
  t.equal((await get(`/api/calls/${inside[0]}`, agent.key)).status, 200)
  t.match(await get('/api/calls?backpack_id=bp_other', agent.key), {
    status: 403,
    body: { code: 'key_bound' },
  })
  const lines = await readWholeAccountStatement(main, agent, 1)
  t.strictSame(
    lines.map((line) => [line.call_id, line.amount_usdc, line.spent_total_usdc, line.balance]),
    inside.map((id, at) => [id, -PRICE, (3 - at) * PRICE, null]),
  )
  // Answers are forgotten after a day: their rows are changed then, and no walk loses them.
  const walked = await readWholeAccountStatement(main, agent, 1, '', async () => {
    await main.sql`update calls set response = null where backpack_id = ${backpackId}`
  })
  t.strictSame(walked, lines, 'a walk goes on while answers are forgotten')
  await main.sql`update calls set written = '900000000' where backpack_id = ${backpackId}`
  const restored = await readWholeAccountStatement(main, agent, 2)
  t.strictSame(restored, lines, 'and after a restore into a younger cluster')
  const { body } = await get('/api/agent/statement', agent.key)
  t.match(body, { backpack_id: backpackId, spent_total_usdc: 3 * PRICE, balance: null })
  t.equal(
    (await readWholeAccountStatement(main, owner, 50)).filter(({ kind }) => kind === 'call').length,
    4,
  )
})
