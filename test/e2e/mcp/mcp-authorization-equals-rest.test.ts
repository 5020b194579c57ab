import t from 'tap'
import {
  createAgentBackpack,
  createBackpackBoundKey,
} from '../../support/agents/test-backpack-bound-keys.ts'
import {
  startInProcessTestStation,
  type TestAgent,
} from '../../support/station/start-test-station.ts'
import {
  callMcpTool,
  MCP_TEST_PROTOCOL_VERSIONS,
  problemOfRefusedMcpCall,
  type McpTestAnswer,
} from '../../support/mcp/mcp-test-client.ts'

/** Tools of every kind of access, with an input. */
const TOOLS: readonly [slug: string, args: object][] = [
  ['hive_trending', {}],
  ['hive_read', { query: 'x' }],
  ['vault_query', { query: 'x' }],
  ['self_audit', {}],
  ['pack_install', { pack_id: 'none' }],
]

/** What a refusal says; a success has no code. */
interface Decision {
  readonly code: unknown
  readonly status: unknown
  readonly key_status: unknown
  readonly remedy: unknown
}

t.test('MCP authorizes as REST does', async (t) => {
  const main = await startInProcessTestStation(t)
  const owner = await main.onboard()
  const stranger = await main.onboard()
  const poor = await main.onboard(0)
  const own = await createAgentBackpack(main, owner)
  const narrow = await createAgentBackpack(main, owner, { tools: ['hive_read'] })
  const tripped = await createAgentBackpack(main, owner, { fuse: { per_call_usdc: 0.001 } })
  const revoked = await createAgentBackpack(main, owner)
  const foreign = await createAgentBackpack(main, stranger)
  const bound = await createBackpackBoundKey(main, owner, own)
  const ended = await createBackpackBoundKey(main, owner, revoked)
  await main.ask('POST', `/api/backpack/${revoked}/revoke`, { key: owner.key, json: {} })
  const keyWith = async (json: object): Promise<TestAgent> => {
    const { body } = await main.ask('POST', '/api/keys', { key: owner.key, json })
    return { id: owner.id, key: body.api_key }
  }
  const reader = await keyWith({ scopes: ['read'] })
  const capped = await keyWith({ cap_usdc: 0.001 })
  const old = await keyWith({})
  const { keys } = (await main.ask('GET', '/api/keys', { key: old.key })).body
  const current = (keys as { id: string; current: boolean }[]).find((key) => key.current)
  await main.ask('DELETE', `/api/keys/${current?.id ?? ''}`, { key: owner.key })
  const startTask = async (guest: TestAgent) => {
    const json = { name: 'work', budget_usdc: 0.001 }
    return (await main.ask('POST', '/api/task/start', { key: guest.key, json })).body.task_id
  }
  const [small, theirs, over] = [
    await startTask(owner),
    await startTask(stranger),
    await startTask(owner),
  ]
  await main.ask('POST', '/api/task/end', { key: owner.key, json: { task_id: over } })

  const callers: readonly [name: string, guest: TestAgent | null, headers?: object][] = [
    ['nobody', null],
    ['a malformed key', { ...owner, key: 'gas_x' }],
    ['an empty key', { ...owner, key: '' }],
    ['a revoked key', old],
    ['a key that may only read', reader],
    ['a capped key', capped],
    ['an agent without credits', poor],
    ['a bound key', bound],
    ['a bound key elsewhere', bound, { 'x-backpack-id': narrow }],
    ['a key of an ended Backpack', ended],
    ['a Backpack without the tool', owner, { 'x-backpack-id': narrow }],
    ['a Backpack with a low fuse', owner, { 'x-backpack-id': tripped }],
    ['a Backpack of a stranger', owner, { 'x-backpack-id': foreign }],
    ['no such Backpack', owner, { 'x-backpack-id': 'bp_none' }],
    ['a malformed Backpack', owner, { 'x-backpack-id': '../x' }],
    ['nobody with a Backpack', null, { 'x-backpack-id': own }],
    ['a small task', owner, { 'x-task-id': small }],
    ['a task of a stranger', owner, { 'x-task-id': theirs }],
    ['an ended task', owner, { 'x-task-id': over }],
    ['a malformed ghost mode', owner, { 'x-ghost-mode': 'loud' }],
    ['a malformed idempotency key', owner, { 'idempotency-key': 'ä b' }],
  ]
  const toDecision = ({ code, status, key_status, remedy }: Record<string, unknown>): Decision => ({
    code,
    status,
    key_status,
    remedy,
  })
  const decisionOf = (answer: McpTestAnswer) => toDecision(problemOfRefusedMcpCall(answer))
  /** The same limits as fields of `_meta`. */
  const toMeta = (headers: Record<string, string>) =>
    Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [
        `gas/${name.replace(/^x-/, '').replaceAll('-', '_')}`,
        value,
      ]),
    )

  let refusals = 0
  for (const [at, [name, guest, given = {}]] of callers.entries())
    for (const [slug, args] of TOOLS) {
      // Each caller has free calls of its own.
      const address = { 'x-forwarded-for': `203.0.113.${at}` }
      const headers = given as Record<string, string>
      const sent = { ...address, ...headers }
      const rest = await main.call(guest, slug, args, sent)
      const wanted = toDecision(rest.status === 200 ? {} : { ...rest.body })
      if (rest.status !== 200) refusals += 1
      for (const era of MCP_TEST_PROTOCOL_VERSIONS) {
        const answer = await callMcpTool(main, slug, args, { guest, era, headers: sent })
        t.equal(answer.reply.status, 200, `${name}, ${slug}, ${era}: ${answer.reply.text}`)
        t.strictSame(decisionOf(answer), wanted, `${name}, ${slug}, ${era}`)
      }
      if (Object.keys(headers).length === 0) continue
      const meta = toMeta(headers)
      const byMeta = await callMcpTool(main, slug, args, { guest, meta, headers: address })
      t.strictSame(decisionOf(byMeta), wanted, `${name}, ${slug}, by _meta`)
    }
  t.ok(refusals > 60, `${refusals} refusals`)

  t.test('credentials that contradict each other are refused, but never with 401', async (t) => {
    const headers = { authorization: `Bearer ${stranger.key}` }
    const { reply } = await callMcpTool(main, 'hive_trending', {}, { guest: owner, headers })
    t.match(reply, { status: 400, text: /conflicting_credentials/ })
    t.equal(reply.headers['www-authenticate'], undefined)
  })

  await main.verify()
})
