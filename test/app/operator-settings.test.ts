import { spawn } from 'node:child_process'
import { readdirSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { findFreePort } from '../../chaos/free-port.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import { createTestDatabase } from '../support/postgres/test-database.ts'
import { serviceProgramArgs } from '../support/station/node-args-to-spawn-service-or-cli.ts'
import { createStationDataDir } from '../support/station/temporary-station-data-directory.ts'
import {
  spawnTestStationProcess,
  startInProcessTestStation,
} from '../support/station/start-test-station.ts'
import { sendJsonFixture, startFixtureServer } from '../support/upstreams/fixture-server.ts'

/** Wrong settings end a start or a verb with one line that names them, and nothing is created. */

const EX_CONFIG = 78
const SECRET = 'S3cr3tPw'
const MASTER_KEY = Buffer.alloc(32, 7).toString('base64')

interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

type Settings = Readonly<Record<string, string>>

/** A program in a working directory of its own, with no other settings than these. */
async function run(
  program: 'main' | 'cli',
  args: readonly string[],
  settings: Settings,
  cwd: string,
): Promise<Ran> {
  const [first = '', ...rest] = serviceProgramArgs(program).map((arg) =>
    /\.[jt]s$/.test(arg)
      ? join(REPOSITORY_ROOT, arg)
      : arg === 'tsx'
        ? import.meta.resolve('tsx')
        : arg,
  )
  const { PATH = '', HOME = '' } = process.env
  const child = spawn(process.execPath, [first, ...rest, ...args], {
    cwd,
    env: { PATH, HOME, NODE_ENV: 'test', REDIS: 'none', CHROMIUM_PATH: 'none', ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (part) => (stdout += String(part)))
  child.stderr.on('data', (part) => (stderr += String(part)))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, stdout, stderr }
}

/** Two at a time: each is a process of its own. */
async function inPairs<Case>(cases: readonly Case[], work: (one: Case) => Promise<void>) {
  for (let at = 0; at < cases.length; at += 2)
    await Promise.all(cases.slice(at, at + 2).map((one) => work(one)))
}

const folder = (t: Test): string => createStationDataDir(t)

t.test('operator verbs create nothing in an empty folder', async (t) => {
  const id = '00000000-0000-7000-8000-000000000001'
  const verbs = [
    ['verify'],
    ['history', 'backpack', 'bp_1'],
    ['grant', id, '1', '--note', 'test'],
    ['attest', 'accept-restore'],
    ['attest', 'rotate-key'],
    ['dlq', 'ls'],
    ['settlement', 'ls'],
    ['inspect'],
    ['receipt', 'x'],
    ['rotate-master-key'],
    ['rotate-master-key', '--new'],
  ]
  await inPairs(verbs, async (args) => {
    const cwd = folder(t)
    const { code, stdout, stderr } = await run('cli', args, {}, cwd)
    const line = `gas ${args.join(' ')}`
    t.equal(code, EX_CONFIG, line)
    t.match(stderr, /there is no (database|master key) at \S*\.data\S*: set DATA_DIR or /, line)
    t.equal(stdout, '', line)
    t.strictSame(readdirSync(cwd), [], `${line} creates nothing`)
  })
})

t.test(
  'gas verify says which database it has checked, and refuses one without a station',
  async (t) => {
    const main = await startInProcessTestStation(t)
    const guest = await main.onboard()
    await main.call(guest, 'hive_trending')
    const { databaseUrl } = main.database.settings
    const cwd = folder(t)
    const good = await run('cli', ['verify'], { DATABASE_URL: databaseUrl }, cwd)
    t.equal(good.code, 0, good.stderr)
    t.match(
      good.stdout,
      /^\S+, database \S+: 1 agents with 0\.\d+ USDC, \d+ calls, \d+ transfers\n/,
    )
    t.match(good.stdout, /verified: no difference\n$/)

    // Of an older station, which still runs: a verb that looks changes nothing under it.
    const { sql: store } = main.database
    const [last] = await store`
      delete from schema_migrations where number = (select max(number) from schema_migrations)
      returning number, name, checksum`
    const older = await run('cli', ['verify'], { DATABASE_URL: databaseUrl }, cwd)
    t.equal(older.code, EX_CONFIG)
    t.match(older.stderr, /is at migration \d+, this code needs \d+: run gas migrate/)
    const kept = await store`select from schema_migrations where number = ${last?.['number']}`
    t.equal(kept.length, 0)
    await store`insert into schema_migrations ${store({ ...last, checksum: 'other' })}`
    const edited = await run('cli', ['doctor'], { DATABASE_URL: databaseUrl }, cwd)
    t.match(edited.stdout, /^failed {3}DATABASE_URL: .*applied with another content/m)
    await store`update schema_migrations set checksum = ${last?.['checksum']} where checksum = 'other'`

    const { sql, settings } = await createTestDatabase(t)
    await sql`drop schema public cascade`
    await sql`create schema public`
    const empty = await run('cli', ['verify'], { DATABASE_URL: settings.databaseUrl }, cwd)
    t.equal(empty.code, EX_CONFIG)
    t.match(
      empty.stderr,
      /there is no station in .*: set DATA_DIR or DATABASE_URL, or run gas migrate/,
    )
    t.equal((await sql`select from pg_class where relname = 'schema_migrations'`).length, 0)
    t.strictSame(readdirSync(cwd), [])
  },
)

t.test('a start that cannot use a setting ends with one line that names it', async (t) => {
  const closed = await findFreePort()
  const file = join(folder(t), 'file')
  writeFileSync(file, '')
  const busy = createServer().listen(0, '127.0.0.1')
  await once(busy, 'listening')
  t.teardown(() => busy.close())
  const { port } = busy.address() as AddressInfo
  const { settings } = await createTestDatabase(t)
  const [base = ''] = settings.databaseUrl.split('?')
  const login = `u:${SECRET}`
  const cases: readonly (readonly [settings: Settings, says: RegExp])[] = [
    [
      { DATABASE_URL: `postgres://${login}@127.0.0.1:${closed}/gas` },
      new RegExp(`DATABASE_URL cannot be used: 127.0.0.1:${closed}/gas: nothing listens there`),
    ],
    [
      { DATABASE_URL: `postgres://${login}@no-such-host.invalid/gas` },
      /DATABASE_URL cannot be used: no-such-host.invalid:5432\/gas: (there is no host|the name)/,
    ],
    [
      { DATABASE_URL: `${base}?db=nowhere` },
      /DATABASE_URL cannot be used: .*there is no database nowhere/,
    ],
    [
      { DATABASE_URL: `${base}?user=nobody_known` },
      /DATABASE_URL cannot be used: .*nobody_known may not log in/,
    ],
    [
      { DATABASE_URL: `postgres://${login}@127.0.0.1:${port}/gas?pgbouncer=true` },
      /DATABASE_URL leads to a pooler/,
    ],
    [{ DATABASE_URL: `postgres://${login}%zz%40@db/gas` }, /DATABASE_URL holds a password/],
    [{ REDIS_URL: `tcp://:${SECRET}@cache` }, /REDIS_URL must start with redis:\/\//],
    [{ SMTP_URL: `http://${login}@mail` }, /SMTP_URL must start with smtp:\/\//],
    [
      { PORT: String(port) },
      new RegExp(`cannot listen on 127.0.0.1:${port}: .*EADDRINUSE.*: set PORT`),
    ],
    [{ HOST: 'http://x' }, /HOST must be a host name or an address/],
    [{ HOST: '192.0.2.1' }, /cannot listen on 192.0.2.1:\d+: .*set HOST/],
    [{ PUBLIC_URL: 'http://:::3000' }, /PUBLIC_URL must be an http or https URL/],
    [{ DATA_DIR: file }, /DATA_DIR cannot be used: \S+ is a file/],
    [{ DATA_DIR: join(file, 'below') }, /DATA_DIR cannot be used: \S+ is a file/],
    [{ PORT: '"8402"' }, /PORT has quotes around it: remove them/],
  ]
  await inPairs(cases, async ([given, says]) => {
    const cwd = folder(t)
    const all = { PORT: String(closed), MASTER_KEY, ...given }
    const { code, stdout, stderr } = await run('main', [], all, cwd)
    const name = JSON.stringify(given)
    t.equal(code, EX_CONFIG, `${name}: ${stderr}`)
    t.equal(stdout, '', name)
    t.equal(stderr.trim().split('\n').length, 1, name)
    t.match((JSON.parse(stderr) as { msg: string }).msg, says, name)
    t.notOk(stderr.includes(SECRET), name)
    t.strictSame(readdirSync(cwd), [], `${name} creates nothing`)
  })
})

t.test('gas doctor tries each service of the settings, and shows no secret', async (t) => {
  const main = await startInProcessTestStation(t)
  const { databaseUrl } = main.database.settings
  const closed = await findFreePort()
  const chain = await startFixtureServer(t, (_request, response) =>
    sendJsonFixture(response, { jsonrpc: '2.0', id: 1, result: '0x1' }),
  )
  const settings = {
    DATABASE_URL: databaseUrl,
    MASTER_KEY,
    PORT: String(closed),
    REDIS_URL: `redis://:${SECRET}@127.0.0.1:${closed}`,
    RPC_URL_BASE: `${chain.base}/${SECRET}`,
    RPC_URL_ETHEREUM: `${chain.base}/${SECRET}`,
    SMTP_URL: `smtp://u:${SECRET}@127.0.0.1:${closed}`,
    TELEGRAM_BOT_TOKEN: `123456:${SECRET}`,
    TELEGRAM_BASE: `http://127.0.0.1:${closed}`,
    LLM_PROVIDERS: JSON.stringify([
      {
        id: 'far',
        base_url: `http://127.0.0.1:${closed}`,
        key_env: 'FAR_KEY',
        models: [{ id: 'm', in_per_mtok: 1, out_per_mtok: 1, quality: 1, ctx: 1000 }],
      },
    ]),
    FAR_KEY: SECRET,
    SEARXNG_URL: `http://127.0.0.1:${closed}`,
    X402_FACILITATOR_URL: `http://127.0.0.1:${closed}`,
    LOGLEVEL: 'debug',
  }
  const cwd = folder(t)
  const { code, stdout, stderr } = await run('cli', ['doctor'], settings, cwd)
  t.equal(code, 1, stderr)
  for (const line of [
    /^warning {2}environment: LOGLEVEL is no setting .* did you mean LOG_LEVEL\?$/m,
    /^ok {7}DATABASE_URL: PostgreSQL \d+ at /m,
    /^ok {7}DATABASE_URL: schema at migration \d+$/m,
    /^ok {7}DATABASE_URL: gas may create tables/m,
    /^ok {7}DATABASE_URL: notifications arrive$/m,
    /^ok {7}DATABASE_URL: its clock .* differ by \d+ ms$/m,
    /^ok {7}MASTER_KEY: opens what is sealed/m,
    /^failed {3}REDIS_URL: .*ECONN/m,
    /^failed {3}RPC_URL_BASE: is a node of chain 1, not of 8453$/m,
    /^ok {7}RPC_URL_ETHEREUM: chain 1$/m,
    /^failed {3}SMTP_URL: .*ECONNREFUSED/m,
    /^failed {3}TELEGRAM_BOT_TOKEN: .*ECONNREFUSED/m,
    /^failed {3}LLM_PROVIDERS far: .*ECONNREFUSED/m,
    /^failed {3}SEARXNG_URL: .*ECONNREFUSED/m,
    /^failed {3}X402_FACILITATOR_URL: .*ECONNREFUSED/m,
    /^ok {7}DATA_DIR: not created yet/m,
    /^ok {7}PORT: \d+ is free/m,
    /^ok {7}CHROMIUM_PATH: none/m,
    /^(ok {5}|warning|failed ) {2}SANDBOX_MIN_ISOLATION: /m,
  ])
    t.match(stdout, line)
  t.notOk(`${stdout}${stderr}`.includes(SECRET))
  t.strictSame(readdirSync(cwd), [])

  const wrong = { DATABASE_URL: databaseUrl, MASTER_KEY: Buffer.alloc(32, 8).toString('base64') }
  const other = await run('cli', ['doctor', '--json'], { ...wrong, PORT: String(closed) }, cwd)
  const found = other.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object)
  t.match(
    found.find((finding) => 'setting' in finding && finding.setting === 'MASTER_KEY'),
    { result: 'failed', says: /^the secrets are sealed under / },
  )
})

t.test(
  'a station says as JSON that it starts, warns of variables that look like settings, and stops',
  async (t) => {
    const { settings } = await createTestDatabase(t)
    const station = await spawnTestStationProcess(t, {
      DATABASE_URL: settings.databaseUrl,
      DATA_DIR: folder(t),
      HOST: '::1',
      INSPECTOR: 'off',
      PUBLICURL: 'http://gas.test',
      REDIS_URL: `redis://:${SECRET}@[::1]:${await findFreePort()}`,
      LOG_LEVEL: 'info',
    })
    t.equal(await station.end('SIGTERM'), 0)
    const lines = station.outputLines.map(
      (line) => JSON.parse(line) as { level: number; msg: string },
    )
    const said = lines.map(({ msg }) => msg).join('\n')
    t.match(said, /PUBLICURL is no setting and is not read: did you mean PUBLIC_URL\?/)
    t.match(said, /gas-station ready http:\/\/\[::1\]:\d+/)
    t.match(
      said,
      /the Redis of REDIS_URL at \[::1\]:\d+ does not answer \(.*\): the station runs without it/,
    )
    t.match(said, /stopping: SIGTERM\n(.*\n)*stopped: SIGTERM$/)
    t.strictSame(
      lines.filter(({ level }) => level >= 50),
      [],
      'nothing is an error',
    )
    t.notOk(said.includes(SECRET))
  },
)
