import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { listRegisteredRoutes } from '../scripts/docs/list-routes.ts'
import { REPOSITORY_ROOT } from '../scripts/repository-root.ts'

/** Each `METHOD /path` that a document names is a route. */

/** The changelog may name what is gone. */
const DOCUMENTS = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'sdk/README.md',
  ...readdirSync(join(REPOSITORY_ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
]
const NAMED = /\b(GET|POST|PATCH|PUT|DELETE) (\/[\w/{}.:-]*)/g

t.test('a document names no operation that the station does not have', async (t) => {
  const routes = await listRegisteredRoutes()
  const patterns = routes.map(({ method, path }) => ({
    method,
    path: new RegExp(`^${path.replace(/[.*+?^$()|[\]\\]/g, '\\$&').replace(/\{\w+\}/g, '[^/]+')}$`),
  }))
  let named = 0
  for (const document of DOCUMENTS) {
    const text = readFileSync(join(REPOSITORY_ROOT, document), 'utf8')
    for (const [, method = '', found = ''] of text.matchAll(NAMED)) {
      const path = found.replace(/[.:]+$/, '').replace(/:(\w+)/g, '{$1}')
      named += 1
      const isKnown = patterns.some((one) => one.method === method && one.path.test(path))
      t.ok(isKnown, `${document}: ${method} ${path}`)
    }
  }
  t.ok(named > 300, `${named} operations are named`)
})
