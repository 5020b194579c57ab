import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { systemClock } from '../../core/clock.ts'
import type { Language } from '../../tools/sandbox/port.ts'
import type { Body } from '../support/client.ts'
import { nodeArgsOf } from '../support/program.ts'
import { startStation } from '../support/station.ts'

t.test('a sandbox that cannot start says so and why, and costs nothing', async (t) => {
  const { onboard, database } = await startStation(t)
  const guest = await onboard()
  const { execPath } = process
  t.teardown(() => (process.execPath = execPath))
  const reasons = {
    '/nowhere/node': /is missing/,
    [fileURLToPath(import.meta.url)]: /may not be started/,
    '/bin/false': /exit code 1/,
  }
  for (const [path, reason] of Object.entries(reasons)) {
    process.execPath = path
    const lame = await startStation(t, { PATH: '' }, { database: database })
    const before = await lame.balance(guest)
    for (const turn of ['tried', 'known']) {
      const { status, body } = await lame.call(guest, 'code_sandbox', { code: '1' })
      const expected = { status: 503, body: { code: 'sandbox_unavailable', detail: reason } }
      t.match({ status, body }, expected, `${path}: ${turn}`)
    }
    t.equal(await lame.balance(guest), before)
    const { body } = await lame.ask('GET', '/api/network/health')
    t.match(body, { status: 'degraded', degraded_dependencies: ['sandbox'] })
    t.match(body, { dependencies: { sandbox: { ok: false, kind: 'none', detail: reason } } })
    const { body: entry } = await lame.ask('GET', '/api/tools/code_sandbox')
    t.match(entry, { availability: { available: false, mode: 'none' } })
    await lame.station.close()
  }
})

t.test('it is tried again later, and a language that is broken is named', async (t) => {
  const { execPath } = process
  t.teardown(() => (process.execPath = execPath))
  let later = 0
  const clock = { ...systemClock(), mono: () => performance.now() + later }
  const lame = await startStation(t, { PATH: '', STARTER_CREDITS_USDC: '5' }, { clock })
  const guest = await lame.onboard()
  const go = (language: Language) => lame.call(guest, 'code_sandbox', { code: '1', language })
  const health = async () => {
    const { body } = await lame.ask('GET', '/api/network/health')
    return (body as Body & { dependencies: { sandbox: object } }).dependencies.sandbox
  }
  process.execPath = '/nowhere/node'
  t.match(await go('python'), { status: 503 })
  process.execPath = execPath
  t.match(await go('javascript'), { status: 503 }, 'too soon')
  later = 31_000
  t.match((await go('javascript')).body, { result: 1 })
  t.match(await health(), { ok: true, kind: 'process' })
  process.execPath = '/nowhere/node'
  const lost = await go('bash')
  t.match(lost, { status: 503, body: { code: 'sandbox_unavailable', refunded: true } })
  t.match(await health(), { ok: false, kind: 'process', detail: /^bash: its interpreter/ })
  const { body } = await lame.ask('GET', '/api/tools/code_sandbox')
  t.match(body, { availability: { available: true, mode: 'process' } })
  process.execPath = execPath
  t.match(await go('bash'), { status: 200 })
  t.match(await health(), { ok: true })
  await lame.station.close()
})

t.test('a node that has no file left for another process goes on', async (t) => {
  const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const program = fileURLToPath(new URL(`../support/out-of-files.${ending}`, import.meta.url))
  const command = `ulimit -n 128 && exec "$0" "$@"`
  const args = ['-c', command, process.execPath, ...nodeArgsOf(program), program]
  await t.resolves(promisify(execFile)('/bin/sh', args))
})
