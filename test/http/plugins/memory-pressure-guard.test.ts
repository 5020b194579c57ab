import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { createMemoryPressureGuard } from '../../../http/plugins/memory-pressure-guard.ts'
import { installRequestHooks } from '../../../http/plugins/request-hooks.ts'
import { createTestServer } from '../../support/http/test-fastify-server-with-custom-routes.ts'

t.test('requests get 503 while the heap is nearly full, health excepted', async (t) => {
  let later = 0
  const clock = { ...createDatabaseAdjustedClock(), mono: () => performance.now() + later }
  const { app } = await createTestServer(t)
  const heap = { used_heap_size: 94, heap_size_limit: 100 }
  let samples = 0
  const guard = createMemoryPressureGuard({ clock }, () => {
    samples += 1
    return heap
  })
  installRequestHooks(app, { received: [guard], parsed: [], validated: [], answered: [] })
  for (const url of ['/any', '/api/network/health'])
    app.get(url, { config: { auth: 'none' } }, async () => ({}))
  const status = async (url: string) => (await app.inject(url)).statusCode
  t.equal(await status('/any'), 200)
  heap.used_heap_size = 96
  t.equal(await status('/any'), 200, 'the heap is read once a second')
  t.equal(samples, 1)
  later += 1_000
  const refused = await app.inject('/any')
  t.match(refused.json(), { code: 'unavailable', retry_after: 2 })
  t.match(refused, { statusCode: 503, headers: { 'retry-after': '2' } })
  t.equal(await status('/api/network/health'), 200)
  heap.used_heap_size = 10
  later += 1_000
  t.equal(await status('/any'), 200)
})
