import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t from 'tap'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import {
  NPM_INSTALL_WARNING_PATTERN,
  readPackageContents,
} from '../../support/deployment/allowed-npm-tarball-contents.ts'

/** Plain `npm pack` in a checkout, then `npx` in an empty folder up to the first paid call, timed. */

const folder = mkdtempSync(join(tmpdir(), 'gas-npx-'))
const [home, cache, empty] = ['home', 'cache', 'empty'].map((name) => join(folder, name)) as [
  string,
  string,
  string,
]
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
// As root the database runs as another user, who has to enter it.
chmodSync(folder, 0o755)
for (const path of [home, cache, empty]) mkdirSync(path)
// Downloads are shared, and what npx installs is not.
const downloads = process.env['npm_config_cache'] ?? join(homedir(), '.npm')
mkdirSync(join(downloads, '_cacache'), { recursive: true })
symlinkSync(join(downloads, '_cacache'), join(cache, '_cacache'))

const manifest = JSON.parse(readFileSync(join(REPOSITORY_ROOT, 'package.json'), 'utf8')) as {
  name: string
  version: string
  dependencies: Record<string, string>
}
const env = {
  PATH: process.env['PATH'] ?? '',
  HOME: home,
  XDG_CONFIG_HOME: home,
  npm_config_cache: cache,
  npm_config_prefer_offline: 'true',
  npm_config_update_notifier: 'false',
  PORT: '0',
  REDIS: 'none',
}

// `npm install` has built it.
const packing = ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder]
await promisify(execFile)('npm', packing, { cwd: REPOSITORY_ROOT, maxBuffer: 64e6 })
const tarball = join(folder, `${manifest.name}-${manifest.version}.tgz`)

t.test('npm pack holds what the allow-list names, and no package', async (t) => {
  const { unexpected, bundled } = readPackageContents(tarball)
  t.strictSame(unexpected, [])
  t.equal(bundled.size, 0)
})

const npx = ['--yes', `--package=${tarball}`, 'gas', 'start']

async function post(url: string, json: object, key = ''): Promise<Record<string, unknown>> {
  const headers = {
    'content-type': 'application/json',
    ...(key === '' ? {} : { 'x-api-key': key }),
  }
  const reply = await fetch(url, { method: 'POST', headers, body: JSON.stringify(json) })
  return (await reply.json()) as Record<string, unknown>
}

t.test('npx starts a station without a warning of an engine, and a call is paid', async (t) => {
  const started = performance.now()
  const seconds = () => `${((performance.now() - started) / 1_000).toFixed(1)} s`
  const child = spawn('npx', npx, { cwd: empty, env, detached: true })
  t.teardown(async () => {
    if (child.exitCode !== null || child.pid === undefined) return
    // npx, its shell and the station.
    process.kill(-child.pid, 'SIGTERM')
    await once(child, 'exit')
  })
  let log = ''
  child.stderr.on('data', (part: Buffer) => (log += part.toString('utf8')))
  let url = ''
  for await (const line of createInterface({ input: child.stdout })) {
    url = /gas-station ready ([^"\s]+)/.exec(line)?.[1] ?? ''
    if (url !== '') break
  }
  t.match(url, /^http/, log)
  t.comment(`installed and ready after ${seconds()}`)
  t.notMatch(log, NPM_INSTALL_WARNING_PATTERN)
  const agent = await post(`${url}/api/onboard`, { name: 'scout' })
  const call = { tool: 'hive_trending' }
  const paid = await post(`${url}/api/refuel`, call, String(agent['api_key']))
  t.match(paid, { _meta: { cost_usdc: 0.005 } })
  t.comment(`the first paid call after ${seconds()}`)
  const installs = join(cache, '_npx')
  // npx installs each package once, beside the station: a second version would be in a folder of its user.
  for (const install of readdirSync(installs)) {
    const packages = join(installs, install, 'node_modules')
    for (const [name, version] of Object.entries(manifest.dependencies)) {
      const found = readFileSync(join(packages, name, 'package.json'), 'utf8')
      t.match(JSON.parse(found), { version }, name)
    }
    t.notOk(existsSync(join(packages, 'fastify/node_modules/light-my-request')))
  }
})
