import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { grantCredits } from '../../../app/cli/operator/cli-grant-credits.ts'
import { newUuidV7 } from '../../../core/ids-and-api-keys.ts'
import { fromUsdc } from '../../../core/money.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { createWriteRouteFixtures } from '../../support/agents/write-route-fixtures.ts'
import {
  createAgentBackpack,
  createBackpackBoundKey,
} from '../../support/agents/test-backpack-bound-keys.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { writeRouteCases } from '../../support/write-routes/write-route-cases.ts'

interface Expected {
  readonly method: string
  readonly path: string
  readonly bound?: 'pays' | 'acts' | 'reads' | 'refused'
}

const fixture = JSON.parse(
  readFileSync(join(REPOSITORY_ROOT, 'test/fixtures/spec-routes.json'), 'utf8'),
) as {
  specified: Expected[]
  decided: Expected[]
}
const keyOf = (method: string, path: string) => `${method} ${path.replace(/\{\w+\}/g, '{}')}`
const said = new Map(
  [...fixture.specified, ...fixture.decided].map(({ method, path, bound }) => [
    keyOf(method, path),
    bound,
  ]),
)

/** Read routes that call a tool, with their queries. */
const PAID_READS: Readonly<Record<string, string>> = {
  'GET /api/hive/read': '/api/hive/read?query=x',
  'GET /api/vault/query': '/api/vault/query?q=x',
}

t.test('every route restricts a bound key to its Backpack', async (t) => {
  const main = await startInProcessTestStation(t)
  const owner = await main.onboard()
  const things = await createWriteRouteFixtures(main, owner)
  const [own, other] = [
    await createAgentBackpack(main, owner),
    await createAgentBackpack(main, owner),
  ]
  const agent = await createBackpackBoundKey(main, owner, own)
  const table = writeRouteCases(things)
  const { body } = await main.ask('GET', '/openapi.json')
  const operations = Object.entries(body['paths'] as Record<string, Record<string, Operation>>)
    // Addresses of single tools are those of one route, with a slug.
    .filter(([path]) => !/^\/api\/t\/\w/.test(path))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([name, { security = [], tags = [] }]) => ({
        method: name.toUpperCase(),
        path,
        // MCP answers with JSON-RPC; its authorization is compared with this one in e2e/mcp.
        keyed: tags[0] !== 'mcp' && security.some((way) => 'ApiKey' in way),
      })),
    )
    .filter(({ keyed }) => keyed)
  const boundTo = ({ method, path }: { method: string; path: string }) =>
    said.get(keyOf(method, path))
  /** The case of an operation; a read has no body. */
  const caseOf = ({ method, path }: { method: string; path: string }) => {
    const known = table[`${method} ${path}`] ?? { path: PAID_READS[`${method} ${path}`] ?? path }
    // Data of a Backpack is requested from its own Backpack.
    const where = path.startsWith('/api/backpack/{id}')
      ? path.replace('{id}', own)
      : known.path.replace(/\{\w+\}/g, own)
    return { json: known.body, path: where }
  }
  const ask = (
    operation: { method: string; path: string },
    headers = {},
    key: string = agent.key,
  ) => {
    const { json, path } = caseOf(operation)
    const given = operation.method === 'GET' ? {} : { json: json ?? {} }
    return main.ask(operation.method, path, { key, headers, ...given })
  }

  t.test('each route either acts in the Backpack or rejects the key', async (t) => {
    for (const operation of operations) {
      const bound = boundTo(operation)
      const name = keyOf(operation.method, operation.path)
      t.match(bound, /^(pays|acts|reads|refused)$/, `${name} is in the list`)
      const elsewhere = await ask(operation, { 'x-backpack-id': other })
      t.match(elsewhere, { status: 403, body: { code: 'key_bound', backpack_id: own } }, name)
      if (bound !== 'refused') continue
      t.match(await ask(operation), { status: 403, body: { code: 'key_bound' } }, name)
    }
  })

  t.test('payments of a bound key are charged to its Backpack', async (t) => {
    const paying = operations.filter((one) => boundTo(one) === 'pays')
    const answers = await Promise.all(paying.map((operation) => ask(operation)))
    t.ok(answers.some(({ status }) => status === 200))
    for (const [at, { status, text }] of answers.entries())
      t.ok(status < 500 || status === 503, `${paying[at]?.path ?? ''} ${status} ${text}`)
    const rows = await main.sql`
      select operation, tool, cost_micros from calls
       where key_id = ${agent.keyId} and backpack_id is distinct from ${own}
         and (tool is not null or cost_micros > 0)`
    t.same([...rows], [], 'no call of it is outside')
  })

  t.test('after a revocation of the Backpack the key can neither act nor pay', async (t) => {
    await main.ask('POST', `/api/backpack/${own}/revoke`, { key: owner.key, json: {} })
    const before = await main.balance(owner)
    for (const operation of operations) {
      const bound = boundTo(operation)
      if (bound !== 'acts' && bound !== 'pays') continue
      const { text } = await ask(operation)
      t.match(text, /REVOKED/, keyOf(operation.method, operation.path))
    }
    t.equal(await main.balance(owner), before)
    const state = await main.ask('GET', `/api/backpack/${own}/state`, { key: agent.key })
    t.match(state, { status: 200, body: { state: 'revoked' } }, 'which it can see')
  })

  t.test('what a request with X-Task-ID spends is what its task counts', async (t) => {
    const grant = { grantId: newUuidV7(Date.now()), agentId: owner.id, note: 'x' }
    await grantCredits(main.sql, { ...grant, amount: fromUsdc(20) })
    const json = { name: 'x', budget_usdc: 10 }
    const task = await main.ask('POST', '/api/task/start', { key: owner.key, json })
    const id = String(task.body.task_id)
    const micros = (usdc: unknown) => Math.round(Number(usdc) * 1e6)
    const read = async () => {
      const { body: state } = await main.ask('GET', `/api/task/${id}`, { key: owner.key })
      return { spent: micros(state.spent_usdc), left: micros(await main.balance(owner)) }
    }
    const isPass = ({ path }: { path: string }) => Number(path.includes('/passes/'))
    const paying = operations
      .filter((one) => boundTo(one) === 'pays')
      // A pass pays later calls, which the task counts all the same.
      .toSorted((one, two) => isPass(one) - isPass(two))
    const spenders: string[] = []
    for (const operation of paying) {
      const name = keyOf(operation.method, operation.path)
      const malformed = await ask(operation, { 'x-task-id': 'no task' }, owner.key)
      t.match(malformed, { status: 400, text: /x-task-id/ }, `${name} reads the header`)
      const before = await read()
      await ask(operation, { 'x-task-id': id }, owner.key)
      const after = await read()
      t.equal(after.spent - before.spent, before.left - after.left, `${name} is counted`)
      if (after.spent > before.spent) spenders.push(operation.path)
    }
    const outsideTools = ['agent/send', 'tip', 'bounties', 'task/passes/buy', 'signal/publish']
    for (const path of outsideTools) t.ok(spenders.includes(`/api/${path}`), `${path} spends`)
    const outside = await ask(
      { method: 'POST', path: '/api/tip' },
      { 'x-task-id': 'none' },
      owner.key,
    )
    t.match(outside, { status: 404 }, 'an unknown task spends nothing')
    const lasting = { method: 'POST', path: '/api/task/schedule' }
    t.match(await ask(lasting, { 'x-task-id': id }, owner.key), {
      status: 400,
      body: { errors: [{ pointer: '/headers/x-task-id' }] },
    })
  })

  t.test('the charges add up', () => main.verify())
})

interface Operation {
  readonly security?: readonly object[]
  readonly tags?: readonly string[]
}
