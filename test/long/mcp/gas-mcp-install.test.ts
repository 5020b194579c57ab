import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { toNpxCommand } from '../../../app/cli/mcp/npx-command.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import { startStdioMcpProcess } from '../../support/mcp/stdio-mcp-process.ts'

interface WrittenServer {
  readonly type?: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: { readonly GAS_URL: string; readonly GAS_API_KEY: string }
}

async function gas(env: Readonly<Record<string, string>>, ...args: string[]) {
  const child = spawn(process.execPath, [...serviceProgramArgs('cli'), 'mcp', ...args], {
    cwd: REPOSITORY_ROOT,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [out, err] = ['', '']
  child.stdout.on('data', (bytes) => (out += String(bytes)))
  child.stderr.on('data', (bytes) => (err += String(bytes)))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, out, err }
}

const NO_SERVER: WrittenServer = { command: '', args: [], env: { GAS_URL: '', GAS_API_KEY: '' } }

const npxManifest = (spec: string) =>
  JSON.stringify({ dependencies: { 'agent-gas-station': spec } })

/** Where each client keeps its servers on Linux. */
const PLACES = {
  claude: ['.config/Claude/claude_desktop_config.json', 'mcpServers'],
  'claude-code': ['.claude.json', 'mcpServers'],
  cursor: ['.cursor/mcp.json', 'mcpServers'],
  vscode: ['.config/Code/User/mcp.json', 'servers'],
} as const

t.test('a package that npx has from a file is never looked up in a registry', async (t) => {
  const folder = t.testdir({
    _npx: {
      file: { 'package.json': npxManifest('file:../../own/agent-gas-station-1.0.0.tgz') },
      registry: {
        'package.json': npxManifest('^1.0.0'),
        node_modules: { 'agent-gas-station': { 'package.json': '{"version":"1.2.3"}' } },
      },
      other: { 'package.json': '{"dependencies":{"x":"^1.0.0"}}' },
    },
  })
  const commandOf = (name: string, platform: NodeJS.Platform = 'linux') =>
    toNpxCommand(join(folder, '_npx', name, 'node_modules/.bin/gas'), platform)
  t.strictSame(commandOf('file'), [
    'npx',
    '-y',
    `--package=${join(folder, 'own/agent-gas-station-1.0.0.tgz')}`,
    'gas',
  ])
  t.strictSame(commandOf('registry', 'win32'), [
    'cmd',
    '/c',
    'npx',
    '-y',
    '--package=agent-gas-station@1.2.3',
    'gas',
  ])
  t.throws(() => commandOf('other'), { message: /install the package first/ })
  t.equal(toNpxCommand('/usr/bin/gas'), null)
})

t.test('gas mcp install', { skip: process.platform !== 'linux' }, async (t) => {
  const main = await startInProcessTestStation(t)
  const guest = await main.onboard()
  const home = t.testdir()
  const env = { HOME: home, GAS_URL: main.url, GAS_API_KEY: guest.key }
  const read = (file: string) =>
    JSON.parse(readFileSync(file, 'utf8')) as Record<string, Record<string, WrittenServer>>
  const modeOf = (file: string) => (statSync(file).mode & 0o777).toString(8)

  for (const [client, [path, member]] of Object.entries(PLACES))
    t.test(`gives ${client} a key of its own`, async (t) => {
      const file = join(home, path)
      const old = { theme: 'dark', [member]: { other: { command: 'x', args: [], env: {} } } }
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, JSON.stringify(old), { mode: 0o644 })
      const { code, out, err } = await gas(env, 'install', client, '--per-day', '0.01')
      t.equal(code, 0, err)
      const config = read(file)
      const server = config[member]?.['gas'] as WrittenServer
      t.match(config, old, 'everything else is as it was')
      t.equal(server.type, client === 'claude-code' || client === 'vscode' ? 'stdio' : undefined)
      t.equal(server.env.GAS_URL, main.url)
      t.not(server.env.GAS_API_KEY, guest.key)
      t.notMatch(out + err, server.env.GAS_API_KEY, 'the key is not printed')
      t.equal(modeOf(file), '600')
      const saved = `${file}.before-gas`
      t.same(read(saved), old)
      t.equal(modeOf(saved), '600')
      t.match(JSON.parse(out), { client, file, saved_file: saved, per_day_usdc: 0.01 })
      t.strictSame(
        readdirSync(dirname(file)).filter((name) => name.includes('gas')).length,
        1,
        'no draft is left',
      )
    })

  t.test('what it writes starts, and spends within the limit of the day', async (t) => {
    const config = read(join(home, PLACES.cursor[0]))
    const { env: written, command, args } = config['mcpServers']?.['gas'] ?? NO_SERVER
    const server = startStdioMcpProcess(t, { ...written }, [command, ...args])
    const call = () => server.ask('tools/call', { name: 'hive_trending', arguments: {} })
    for (let at = 0; at < 2; at += 1)
      t.match((await call()).result._meta['gas/call'], { cost_usdc: 0.005 })
    t.match((await call()).result._meta['gas/problem'], { code: 'FUSE_TRIPPED' })
    const made = await main.ask('POST', '/api/keys', { key: written.GAS_API_KEY, json: {} })
    t.match(made, { status: 403, body: { code: 'key_bound' } }, 'it manages nothing')
  })

  t.test('a second time keeps both old files', async (t) => {
    const file = join(home, PLACES.cursor[0])
    const before = readFileSync(file, 'utf8')
    t.match(await gas(env, 'install', 'cursor'), { code: 0 })
    t.equal(readFileSync(`${file}.before-gas-2`, 'utf8'), before)
    t.notMatch(readFileSync(`${file}.before-gas`, 'utf8'), 'GAS_API_KEY')
  })

  t.test('changes nothing where it cannot', async (t) => {
    const keysOf = async () =>
      ((await main.ask('GET', '/api/keys', { key: guest.key })).body['keys'] as unknown[]).length
    const before = await keysOf()
    const file = join(home, 'comments.json')
    writeFileSync(file, '{ // mine\n}')
    t.match(await gas(env, 'install', 'vscode', '--file', file), {
      code: 1,
      err: /comments.json cannot be changed, and nothing was created/,
    })
    t.equal(readFileSync(file, 'utf8'), '{ // mine\n}')
    t.match(await gas(env, 'install', 'emacs'), { code: 2, err: /install <claude\|claude-code/ })
    t.match(await gas(env, 'install', 'cursor', '--per-day', '-1'), { code: 2 })
    t.equal(await keysOf(), before)
    const keyless = { HOME: join(home, 'nobody'), GAS_URL: main.url }
    t.match(await gas(keyless, 'install', 'cursor'), { code: 3, err: /set GAS_API_KEY/ })
    t.notOk(existsSync(join(home, 'nobody', PLACES.cursor[0])))
  })

  t.test('the books are right', () => main.verify())
})
