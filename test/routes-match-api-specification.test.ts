import { join } from 'node:path'
import { readFileSync } from 'node:fs'
import t from 'tap'
import { listRegisteredRoutes } from '../scripts/docs/list-routes.ts'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'

interface Expected {
  readonly method: string
  readonly path: string
  readonly auth: string
  /** Access of a key bound to a Backpack, for routes that take a key. */
  readonly bound?: string
}

/** The routes of the interface as they are specified, and those that decisions 38 and 40 add. */
const fixture = JSON.parse(
  readFileSync(join(REPOSITORY_ROOT, 'test/fixtures/spec-routes.json'), 'utf8'),
) as {
  specified: Expected[]
  decided: Expected[]
}

/** Names of parameters are ours to choose. */
const keyOf = ({ method, path }: Expected) => `${method} ${path.replace(/\{\w+\}/g, '{}')}`

const routes = await listRegisteredRoutes()
const served = new Map(routes.map((route) => [keyOf(route), route]))
const expected = [...fixture.specified, ...fixture.decided]

t.test('every specified route is served with the documented parameters', async (t) => {
  for (const route of expected) t.equal(served.get(keyOf(route))?.auth, route.auth, keyOf(route))
})

t.test('no route is registered twice', async (t) => {
  t.equal(served.size, routes.length)
})

t.test('every route under /api is in the specification', async (t) => {
  const known = new Set(expected.map(keyOf))
  const own = routes.filter(({ path, hidden }) => path.startsWith('/api/') && !hidden)
  for (const route of own) t.ok(known.has(keyOf(route)), keyOf(route))
})

t.test('every route with a key declares the access of bound keys', async (t) => {
  const said = new Map(expected.map((route) => [keyOf(route), route.bound]))
  const keyed = routes.filter(
    ({ auth, hidden }) => !hidden && (auth === 'key' || auth === 'optional'),
  )
  for (const route of keyed) t.equal(said.get(keyOf(route)), route.boundKeyAccess, keyOf(route))
})

/** Writes that count nothing against the day of an agent, and what bounds them. */
const UNCOUNTED: Readonly<Record<string, string>> = {
  'POST /api/agent/freeze': 'stops an agent',
  'POST /api/backpack/{}/revoke': 'stops a Backpack',
  'POST /api/backpack/{}/keyring': 'counts in its transaction',
  'POST /api/backpack/{}/clipboard': 'counts in its transaction',
  'POST /api/signal/publish': 'is paid',
}

t.test('what a write keeps is bounded by agent and day', async (t) => {
  const writes = routes.filter(
    ({ method, auth, callsTools }) =>
      ['POST', 'PUT', 'PATCH'].includes(method) && auth !== 'none' && !callsTools,
  )
  const uncounted = writes.filter(({ keptBytes, auth }) => keptBytes === 0 && auth !== 'operator')
  t.strictSame(uncounted.map(keyOf).sort(), Object.keys(UNCOUNTED).sort())
})
