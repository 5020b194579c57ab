import { spawn } from 'node:child_process'
import { openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** `gas` with homes, files and readers that do not work. */

const main = await startInProcessTestStation(t)
const KEY = /gas_[0-9A-Za-z]{43}/

interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}
type Output = 'pipe' | 'closed' | number

/** Runs a verb; one that does not end is killed, and its code is null. */
async function gas(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  [out, err]: readonly [Output, Output] = ['pipe', 'pipe'],
): Promise<Ran> {
  const child = spawn(process.execPath, [...serviceProgramArgs('cli'), ...args], {
    env: { PATH: process.env['PATH'], GAS_URL: main.url, ...env },
    stdio: ['ignore', out === 'closed' ? 'pipe' : out, err === 'closed' ? 'pipe' : err],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  })
  // A reader that has gone away.
  if (out === 'closed') child.stdout?.destroy()
  if (err === 'closed') child.stderr?.destroy()
  const told = { stdout: '', stderr: '' }
  child.stdout?.on('data', (chunk: Buffer) => (told.stdout += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (told.stderr += chunk.toString()))
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, ...told }
}

const isOneLine = (text: string) => /^gas [^\n]+\n$/.test(text)

const folder = t.testdir({ file: 'x', folder: { gas: { 'config.json': {} } } })
/** Homes without a place for settings, and the part of their path that an error names. */
const HOMES: readonly (readonly [env: Record<string, string>, names: RegExp])[] = [
  [{ HOME: '/proc/x' }, /\/proc\/x/],
  [{ HOME: '/dev/null' }, /\/dev\/null/],
  [{ HOME: join(folder, 'file') }, /file\/\.config/],
  [{ XDG_CONFIG_HOME: '/proc/self/x' }, /\/proc\/self\/x/],
  [{ XDG_CONFIG_HOME: `/tmp/${'x'.repeat(300)}` }, /xxx/],
  [{ XDG_CONFIG_HOME: join(folder, 'folder') }, /config\.json/],
]

t.test('the key of a new agent is printed where it cannot be kept', async (t) => {
  for (const [env, names] of HOMES.slice(0, 4)) {
    const { code, stdout, stderr } = await gas(['onboard', 'scout', '--save'], env)
    t.equal(code, 1, JSON.stringify(env))
    t.match(stdout, KEY)
    t.match(stderr, names)
    t.ok(isOneLine(stderr), stderr)
  }
})

t.test('every verb ends with one line that names the file, or works without it', async (t) => {
  const { key } = await main.onboard()
  for (const [env, names] of HOMES) {
    for (const args of [
      ['config', 'url', main.url],
      ['config', 'forget'],
    ]) {
      const { code, stderr } = await gas(args, env)
      t.equal(code, 78, `${JSON.stringify(env)} ${args.join(' ')}: ${stderr}`)
      t.match(stderr, names)
      t.ok(isOneLine(stderr), stderr)
    }
    const isUnreadable =
      JSON.stringify(env).includes('xxx') ||
      env['XDG_CONFIG_HOME'] === HOMES[5]?.[0]['XDG_CONFIG_HOME']
    const balance = await gas(['balance'], { ...env, GAS_API_KEY: key })
    if (isUnreadable) t.match(balance, { code: 78, stderr: names })
    else t.match(balance, { code: 0, stdout: /balance_usdc/ })
  }
})

t.test('settings with a byte order mark are read', async (t) => {
  const home = t.testdir({ gas: {} })
  const { key } = await main.onboard()
  const file = join(home, 'gas/config.json')
  const text = JSON.stringify({ url: main.url, keys: { [main.url]: key } })
  writeFileSync(file, `\uFEFF${text}`, { mode: 0o600 })
  t.match(await gas(['balance'], { XDG_CONFIG_HOME: home }), { code: 0, stdout: /balance_usdc/ })
})

t.test('the key is on stderr or in a file where stdout takes nothing', async (t) => {
  const home = t.testdir()
  const env = { XDG_CONFIG_HOME: home }
  const [full, none] = [openSync('/dev/full', 'w'), openSync('/dev/null', 'w')]
  for (const out of ['closed', full, none] as const)
    t.match(await gas(['onboard', 'scout'], env, [out, 'pipe']), { code: 1, stderr: KEY })
  for (const out of ['closed', full] as const)
    t.equal((await gas(['onboard', 'scout'], env, [out, out])).code, 1)
  const kept = readdirSync(join(home, 'gas'))
  t.equal(kept.length, 2, kept.join(' '))
  for (const name of kept) t.match(readFileSync(join(home, 'gas', name), 'utf8'), KEY)
  const list = await gas(['tools'], env, [full, 'pipe'])
  t.match(list, { code: 1, stderr: /^gas: stdout cannot be written: ENOSPC[^\n]*\n$/ })
})

t.test('the key for a desktop client is printed where its file cannot be changed', async (t) => {
  const { key } = await main.onboard()
  const env = { HOME: '/proc/x', GAS_API_KEY: key }
  const ran = await gas(['mcp', 'install', 'cursor'], env)
  t.match(ran, { code: 78, stdout: KEY, stderr: /\/proc\/x/ })
  t.ok(isOneLine(ran.stderr), ran.stderr)
})

t.test('a station that names a page again is not asked for ever', async (t) => {
  let asked = 0
  const server = createServer((_request, response) => {
    asked += 1
    response.setHeader('content-type', 'application/json').setHeader('x-request-id', 'r1')
    response.end(JSON.stringify({ keys: [], count: 0, next_cursor: 'x' }))
  })
  t.teardown(() => server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  const env = {
    XDG_CONFIG_HOME: t.testdir(),
    GAS_URL: url,
    GAS_API_KEY: (await main.onboard()).key,
  }
  t.equal((await gas(['keys', 'ls'], env)).code, 0)
  t.equal(asked, 2)
})

t.test('a station does not spin where its data has no place', async (t) => {
  const { code, stderr } = await gas(['migrate'], { DATA_DIR: '/proc/x/data' })
  t.not(code, null, stderr)
  t.not(code, 0)
})

t.test('saved attestations are not checked with a key that they bring along', async (t) => {
  const { text, body } = await main.ask('GET', '/api/attestations/head')
  const { keys: _keys, ...bare } = body
  const files = t.testdir({ kept: text, now: text, bare: JSON.stringify(bare) })
  const verify = (...names: string[]) =>
    gas(['attest', 'verify', ...names.map((name) => join(files, name))], { HOME: files })
  for (const names of [['now'], ['bare', 'now']])
    t.match(await verify(...names), { code: 2, stderr: /no key to trust/ }, names.join(' '))
  t.not((await verify('kept', 'now')).code, 2, 'those of the kept head are trusted for the others')
})
