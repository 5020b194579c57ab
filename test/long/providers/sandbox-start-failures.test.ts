import { execFile } from 'node:child_process'
import { cpSync, symlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import type { SandboxLanguage } from '../../../providers/sandbox/sandbox-port.ts'
import { createSandbox } from '../../../providers/sandbox/sandbox.ts'
import type { TestReplyBody } from '../../support/http/test-http-client.ts'
import { eventually } from '../../support/mail/test-mail-and-telegram-servers.ts'
import { typescriptLoaderArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

t.test('a sandbox that cannot start reports the reason and costs nothing', async (t) => {
  const { onboard, database } = await startInProcessTestStation(t)
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
    const lame = await startInProcessTestStation(t, { PATH: '' }, { database: database })
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

t.test('the start is retried later, and a failing language is named', async (t) => {
  const { execPath } = process
  t.teardown(() => (process.execPath = execPath))
  let later = 0
  const clock = { ...createDatabaseAdjustedClock(), mono: () => performance.now() + later }
  const lame = await startInProcessTestStation(
    t,
    { PATH: '', STARTER_CREDITS_USDC: '5' },
    { clock },
  )
  const guest = await lame.onboard()
  const go = (language: SandboxLanguage) =>
    lame.call(guest, 'code_sandbox', { code: '1', language })
  const health = async () => {
    const { body } = await lame.ask('GET', '/api/network/health')
    return (body as TestReplyBody & { dependencies: { sandbox: object } }).dependencies.sandbox
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

t.test('a failed start is retried automatically, and health recovers', async (t) => {
  const { execPath } = process
  t.teardown(() => (process.execPath = execPath))
  const logged: string[] = []
  let looks = 0
  const { sandbox, health, close } = createSandbox({
    // Half a minute passes in 30 ms.
    clock: {
      ...createDatabaseAdjustedClock(),
      mono: () => ((looks += 1), performance.now() * 1_000),
    },
    ...{ searchPath: '', minIsolation: 'process', againMs: 50 },
    log: (message, error) => void logged.push(`${message}: ${String(error)}`),
  })
  t.teardown(close)
  const go = (language: SandboxLanguage) => {
    const { signal } = new AbortController()
    return sandbox.run({ owner: 'one', language, code: '1', timeoutMs: 5_000 }, { signal })
  }
  const healthy = () => eventually(() => health().ok, 'its health')

  process.execPath = '/nowhere/node'
  await t.rejects(go('javascript'), { code: 'sandbox_unavailable' })
  t.match([health(), sandbox.level()], [{ ok: false, kind: 'none' }, { starts: false }])
  const before = [looks, logged.length] as const
  await eventually(() => looks > before[0] + 20, 'more tries')
  t.equal(logged.length, before[1], 'the same error is logged once')
  process.execPath = execPath
  await healthy()
  t.match(sandbox.level(), { starts: true, isolation: 'process' })

  process.execPath = '/nowhere/node'
  for (const language of ['bash', 'python'] as const) {
    await t.rejects(go(language), { code: 'sandbox_unavailable' })
    t.match(health(), { ok: false, kind: 'process', detail: new RegExp(language) })
  }
  process.execPath = execPath
  await healthy()
  for (const language of ['bash', 'python'] as const) await t.resolves(go(language))
})

t.test('the sandbox starts if node_modules is a symbolic link', async (t) => {
  const root = new URL('../../../', import.meta.url)
  const { resolve } = createRequire(import.meta.url)
  const packages = resolve('just-bash').replace(/(?<=\/node_modules)\/.*/, '')
  const home = t.testdir({ 'package.json': '{"type":"module"}' })
  for (const folder of ['core', 'providers/sandbox'])
    cpSync(new URL(folder, root), join(home, folder), { recursive: true })
  symlinkSync(packages, join(home, 'node_modules'))
  const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const file = pathToFileURL(join(home, `providers/sandbox/sandbox.${ending}`))
  const linked = (await import(file.href)) as { createSandbox: typeof createSandbox }
  for (const searchPath of [process.env['PATH'] ?? '', '']) {
    const log = () => {}
    const made = {
      clock: createDatabaseAdjustedClock(),
      searchPath,
      minIsolation: 'process',
      log,
    } as const
    const { sandbox, close } = linked.createSandbox(made)
    t.teardown(close)
    for (const language of ['javascript', 'bash', 'python'] as const) {
      const code = language === 'bash' ? 'true' : '1'
      const job = { owner: 'one', language, code, timeoutMs: 10_000 }
      const { signal } = new AbortController()
      t.match(await sandbox.run(job, { signal }), { error: null }, language)
    }
  }
})

t.test('a node without free file descriptors continues', async (t) => {
  const ending = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const program = fileURLToPath(
    new URL(`../../support/sandbox/exhaust-file-descriptors.${ending}`, import.meta.url),
  )
  const command = `ulimit -n 128 && exec "$0" "$@"`
  const args = ['-c', command, process.execPath, ...typescriptLoaderArgs(program), program]
  await t.resolves(promisify(execFile)('/bin/sh', args))
})
