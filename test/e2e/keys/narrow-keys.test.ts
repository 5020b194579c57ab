import t from 'tap'
import { API_KEY_SCOPES } from '../../../persistence/agents/api-key-store.ts'
import { listRegisteredRoutes } from '../../../scripts/docs/list-routes.ts'
import {
  createAgentBackpack,
  createBackpackBoundKey,
} from '../../support/agents/test-backpack-bound-keys.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/**
 * The table of docs/keys.md, cell by cell: what a key without a scope, a bound key, one of an ended Backpack, and one
 * with a cap gets on every operation that takes a key.
 */

/** Operations that check the scope themselves, or need none. */
const WITHOUT_SCOPE: readonly string[] = ['POST /mcp', 'POST /hivecast/mcp']
/** Streams answer an accepted key for as long as it listens. */
const STREAMS: readonly string[] = ['GET /api/signal/stream']

const main = await startInProcessTestStation(t)
const owner = await main.onboard()
const keyed = (await listRegisteredRoutes()).filter(
  ({ auth, hidden }) => !hidden && (auth === 'key' || auth === 'optional'),
)
type Row = (typeof keyed)[number]
const nameOf = ({ method, path }: Row) => `${method} ${path}`

async function createKey(json: object): Promise<string> {
  return (await main.ask('POST', '/api/keys', { key: owner.key, json })).body.api_key
}

/** A request without a body, to something that does not exist: it is refused for its key, or for what it lacks. */
const askWith = (row: Row, key: string, id = 'x') => {
  const path = row.path.replace('/backpack/{id}', `/backpack/${id}`).replace(/\{\w+\}/g, 'x')
  return main.ask(row.method, path, { key, ...(row.method === 'GET' ? {} : { json: {} }) })
}

t.test('a key without the scope of an operation is refused there', async (t) => {
  const without = new Map<string, string>()
  for (const missing of API_KEY_SCOPES) {
    const scopes = API_KEY_SCOPES.filter((scope) => scope !== missing)
    without.set(missing, await createKey({ scopes }))
  }
  t.ok(keyed.length > 120)
  for (const row of keyed) {
    const { scope } = row
    if (scope === null) {
      t.ok(WITHOUT_SCOPE.includes(nameOf(row)), `${nameOf(row)} says which scope it needs`)
      continue
    }
    const answer = await askWith(row, without.get(scope) ?? '')
    t.match(answer, { status: 403, body: { code: 'insufficient_scope', scope } }, nameOf(row))
  }
})

t.test('a bound key is refused where its row says so, and nowhere else', async (t) => {
  const backpackId = await createAgentBackpack(main, owner)
  const { key } = await createBackpackBoundKey(main, owner, backpackId)
  for (const row of keyed.filter((one) => !STREAMS.includes(nameOf(one)))) {
    const { status, body } = await askWith(row, key, backpackId)
    const isRefused = status === 403 && body.code === 'key_bound'
    t.equal(isRefused, row.boundKeyAccess === 'refused', `${nameOf(row)}: ${status} ${body.code}`)
  }
})

t.test('a key of an ended Backpack writes nothing', async (t) => {
  const backpackId = await createAgentBackpack(main, owner)
  const { key } = await createBackpackBoundKey(main, owner, backpackId)
  await main.ask('POST', `/api/backpack/${backpackId}/revoke`, { key: owner.key, json: {} })
  for (const row of keyed.filter(({ boundKeyAccess }) => boundKeyAccess === 'acts')) {
    const answer = await askWith(row, key, backpackId)
    t.match(answer, { status: 403, body: { code: 'REVOKED' } }, nameOf(row))
  }
})

t.test('a key of one Backpack reaches no other one, by path, header, query or body', async (t) => {
  const [own, other] = [
    await createAgentBackpack(main, owner),
    await createAgentBackpack(main, owner),
  ]
  const { key } = await createBackpackBoundKey(main, owner, own)
  const headers = { 'x-backpack-id': other }
  for (const row of keyed.filter(({ boundKeyAccess }) => boundKeyAccess !== 'refused')) {
    if (STREAMS.includes(nameOf(row)) || row.scope === null) continue
    const { method } = row
    const body = method === 'GET' ? {} : { json: {} }
    const path = row.path.replace(/\{\w+\}/g, 'x')
    const byHeader = await main.ask(method, path, { key, headers, ...body })
    t.match(byHeader, { status: 403, body: { code: 'key_bound' } }, nameOf(row))
    if (row.path.includes('/backpack/{id}'))
      t.equal((await askWith(row, key, other)).status, 404, nameOf(row))
    const fields = { ...row.query.properties, ...row.body.properties }
    if (!('backpack_id' in fields)) continue
    const named =
      method === 'GET'
        ? await main.ask(method, `${path}?backpack_id=${other}`, { key })
        : await main.ask(method, path, { key, json: { backpack_id: other } })
    t.ok(named.status >= 400, `${nameOf(row)} by field: ${named.status}`)
  }
})

t.test('a key with a cap is refused where its row says so, and nowhere else', async (t) => {
  const key = await createKey({ cap_usdc: 1 })
  for (const row of keyed.filter((one) => !STREAMS.includes(nameOf(one)))) {
    // It may end itself, but no other key.
    const isOwnOnly = nameOf(row) === 'DELETE /api/keys/{id}'
    const { status, body } = await askWith(row, key)
    const isRefused = !isOwnOnly && status === 403 && body.code === 'insufficient_scope'
    t.equal(isRefused, row.refusesCappedKey, `${nameOf(row)}: ${status} ${body.code}`)
  }
})

t.test('a key in a body is refused where the same key in a header is', async (t) => {
  const taker = await main.onboard()
  const created = await main.ask('POST', '/api/fleet/create', {
    key: taker.key,
    json: { name: 'taker' },
  })
  const join = (agentId: string, secret: string) =>
    main.ask('POST', '/api/fleet/add-agent', {
      key: taker.key,
      json: { fleet_id: created.body['fleet_id'], agent_id: agentId, agent_key: secret },
    })
  const [active, ended] = [
    await createAgentBackpack(main, owner),
    await createAgentBackpack(main, owner),
  ]
  const [bound, late] = [
    await createBackpackBoundKey(main, owner, active),
    await createBackpackBoundKey(main, owner, ended),
  ]
  await main.ask('POST', `/api/backpack/${ended}/revoke`, { key: owner.key, json: {} })
  const narrow: readonly (readonly [string, string])[] = [
    [bound.key, 'key_bound'],
    [late.key, 'key_bound'],
    [await createKey({ cap_usdc: 1 }), 'insufficient_scope'],
    [await createKey({ scopes: ['read', 'tools'] }), 'insufficient_scope'],
    [taker.key, 'insufficient_scope'],
    ['gas_unknown', 'insufficient_scope'],
  ]
  for (const [secret, code] of narrow) {
    const answer = await join(owner.id, secret)
    t.match(answer, { status: 403, body: { code, detail: /agent_key/ } }, code)
  }
  const frozen = await main.onboard()
  await main.ask('POST', '/api/agent/freeze', { key: frozen.key, json: {} })
  const stopped = await join(frozen.id, frozen.key)
  t.match(stopped, { status: 403, body: { code: 'agent_frozen', agent_id: frozen.id } })
  t.match(await join(owner.id, owner.key), { status: 200, body: { joined: true } })
})
