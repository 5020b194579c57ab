import t from 'tap'
import { API_KEY_SCOPES } from '../../../persistence/agents/api-key-store.ts'
import { listRegisteredRoutes } from '../../../scripts/docs/list-routes.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** Operations that check the scope themselves, or need none. */
const WITHOUT_SCOPE: readonly string[] = ['POST /mcp', 'POST /hivecast/mcp']

t.test('a key without the scope of an operation is refused there', async (t) => {
  const main = await startInProcessTestStation(t)
  const owner = await main.onboard()
  const without = new Map<string, string>()
  for (const missing of API_KEY_SCOPES) {
    const scopes = API_KEY_SCOPES.filter((scope) => scope !== missing)
    const { body } = await main.ask('POST', '/api/keys', { key: owner.key, json: { scopes } })
    without.set(missing, body.api_key)
  }
  const keyed = (await listRegisteredRoutes()).filter(
    ({ auth, hidden }) => !hidden && (auth === 'key' || auth === 'optional'),
  )
  t.ok(keyed.length > 120)
  for (const { method, path, scope } of keyed) {
    const name = `${method} ${path}`
    if (scope === null) {
      t.ok(WITHOUT_SCOPE.includes(name), `${name} says which scope it needs`)
      continue
    }
    const body = method === 'GET' ? {} : { json: {} }
    const key = without.get(scope)
    const answer = await main.ask(method, path.replace(/\{\w+\}/g, 'x'), { key, ...body })
    t.match(answer, { status: 403, body: { code: 'insufficient_scope', scope } }, name)
  }
})
