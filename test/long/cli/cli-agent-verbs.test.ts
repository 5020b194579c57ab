import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import {
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type Server,
} from 'node:http'
import { connect, createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { CLI_VERBS } from '../../../app/cli/cli-verb-table.ts'
import { runCli, type CliRun } from '../../support/station/run-cli.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** The verbs of `gas` for agents, as programs run them. */

const main = await startInProcessTestStation(t)
const home = t.testdir()
const STRATEGY = JSON.stringify({ title: 'x', description: 'x', params: {} })
const settingsFile = join(home, 'gas/config.json')

const environment = (settings: Record<string, string>) => ({ XDG_CONFIG_HOME: home, ...settings })
const gas = (args: readonly string[], settings: Record<string, string> = {}): Promise<CliRun> =>
  runCli(args, environment(settings))

const at = (key: string) => ({ GAS_URL: main.url, GAS_API_KEY: key })
const parsed = ({ stdout }: CliRun) => JSON.parse(stdout) as Record<string, unknown>
const rows = ({ stdout }: CliRun) =>
  stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>)
const portOf = (server: { address(): unknown }) => (server.address() as AddressInfo).port

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${portOf(server)}`
}

t.test('each verb has help, and wrong words are exit code 2', async (t) => {
  for (const [name, { summary, load }] of Object.entries(CLI_VERBS)) {
    const { forms, options } = await load()
    t.ok(summary.length > 5 && forms.length > 0, name)
    for (const [option, { description }] of Object.entries(options))
      t.ok(description.length > 5, `${name} --${option}`)
  }
  const [all, one, also, unknown, option, word] = await Promise.all([
    gas(['help']),
    gas(['help', 'task']),
    gas(['task', '--help']),
    gas(['tols']),
    gas(['balance', '--nope']),
    gas(['task', 'start']),
  ])
  for (const name of Object.keys(CLI_VERBS)) t.match(all.stdout, new RegExp(`^  ${name} `, 'm'))
  t.match(one.stdout, /gas task budget <id> <usdc>/)
  t.equal(also.stdout, one.stdout)
  t.match(unknown, { code: 2, stdout: '', stderr: /did you mean tools/ })
  t.match(option, { code: 2, stdout: '', stderr: /--nope/ })
  t.match(word, { code: 2, stdout: '', stderr: /gas task start <name>/ })
})

t.test('the key of the settings file goes to its station only', async (t) => {
  const seen: IncomingHttpHeaders[] = []
  const other = await listen(
    createServer((request, response) => {
      seen.push(request.headers)
      response.setHeader('content-type', 'application/json').end('{}')
    }),
  )
  const redirecting = await listen(
    createServer((_, response) => response.writeHead(307, { location: other }).end()),
  )
  const saved = await gas(['onboard', 'scout', '--save'], { GAS_URL: main.url })
  t.equal(saved.code, 0, saved.stderr)
  t.notOk('api_key' in parsed(saved), 'the answer is printed without the key')
  t.equal(statSync(settingsFile).mode & 0o777, 0o600)
  t.match(parsed(await gas(['balance'])), { balance_usdc: 0.5 }, 'the saved station and key')
  const [elsewhere, redirected, shown] = await Promise.all([
    gas(['balance'], { GAS_URL: other }),
    gas(['balance'], { GAS_URL: redirecting, GAS_API_KEY: 'gas_secret' }),
    gas(['config']),
  ])
  t.match(elsewhere, { code: 1, stderr: /is no station/ }, 'whatever else answers JSON')
  t.match(redirected, { code: 1, stderr: /redirects/ })
  t.equal(seen.length, 1, 'a redirection is not followed')
  t.equal(seen[0]?.['x-api-key'], undefined)
  const { keys } = JSON.parse(readFileSync(settingsFile, 'utf8')) as {
    keys: Record<string, string>
  }
  t.notMatch(shown.stdout, keys[main.url] ?? 'no key')
  chmodSync(settingsFile, 0o644)
  t.match(await gas(['balance']), { code: 78, stderr: /chmod 600/ })
  chmodSync(settingsFile, 0o600)
})

t.test(
  'no key is lost where programs save keys together or one after the other',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const folder = t.testdir()
    const file = join(folder, 'gas/config.json')
    const inFolder = { XDG_CONFIG_HOME: folder, GAS_URL: main.url }
    const onboardTwice = [1, 2].map(() => gas(['onboard', 'scout', '--save'], inFolder))
    for (const { code, stderr } of await Promise.all(onboardTwice)) t.equal(code, 0, stderr)
    const saved = JSON.parse(readFileSync(file, 'utf8')) as Record<string, Record<string, unknown>>
    t.match(saved, { keys: { [main.url]: /^gas_/ }, earlier_keys: { [main.url]: [/^gas_/] } })
    t.not(
      saved['keys']?.[main.url],
      (saved['earlier_keys']?.[main.url] as string[] | undefined)?.[0],
    )
    t.match((await gas(['balance'], inFolder)).code, 0)

    rmSync(file)
    writeFileSync(`${file}.lock`, '')
    const waiting = gas(['config', 'url', main.url], inFolder)
    await pause(1_500)
    t.notOk(existsSync(file), 'it waits while another program changes the file')
    rmSync(`${file}.lock`)
    t.equal((await waiting).code, 0)
    t.notOk(existsSync(`${file}.lock`))

    // A lock that nobody can take, also not as a stale one.
    const broken = t.testdir({ gas: { 'config.json.lock': {} } })
    const unsaved = await gas(['onboard', 'scout', '--save'], {
      ...inFolder,
      XDG_CONFIG_HOME: broken,
    })
    t.match(unsaved, { code: 1, stderr: /was not saved, and is printed/ })
    t.match(parsed(unsaved), { api_key: /^gas_/ })
  },
)

t.test('exit codes say why a call failed', async (t) => {
  const [rich, poor] = await Promise.all([main.onboard(), main.onboard(0)])
  const task = parsed(await gas(['task', 'start', 'look', '--budget', '0.004'], at(rich.key)))
  const [away, bad, payment, limit, ok] = await Promise.all([
    gas(['balance'], { GAS_URL: 'http://127.0.0.1:9', GAS_API_KEY: 'gas_x' }),
    gas(['balance'], at('gas_wrong')),
    gas(['call', 'strategy_publish', '--json', STRATEGY], at(poor.key)),
    gas(['call', 'hive_trending', '--task', String(task['task_id'])], at(rich.key)),
    gas(['call', 'hive_trending'], at(rich.key)),
  ])
  t.match(away, { code: 1, stderr: /does not answer/ })
  t.match(bad, { code: 3, stderr: /unauthenticated/, stdout: /"code":"unauthenticated"/ })
  t.equal(payment.code, 4, payment.stderr)
  t.match(limit, { code: 5, stderr: /task_budget_exceeded/ })
  t.match(parsed(ok), { _meta: { cost_usdc: 0.005 } })
})

t.test('what no header can hold is named, and is no absent station', async (t) => {
  const { key } = await main.onboard()
  const [bad, task, idempotent, long] = await Promise.all([
    gas(['balance'], at('gas_secret\u2026')),
    gas(['call', 'hive_trending', '--task', 'x y'], at(key)),
    gas(['call', 'hive_trending', '--idempotency-key', 'one\n'], at(key)),
    gas(['call', 'hive_read', 'query=12345678901234567890'], at(key)),
  ])
  t.match(bad, { code: 3, stderr: /GAS_API_KEY has characters/ })
  t.notMatch(bad.stderr, /secret/)
  t.match(task, { code: 2, stderr: /--task must be/ })
  t.match(idempotent, { code: 2, stderr: /--idempotency-key must be/ })
  t.equal(long.code, 0, 'an integer that a number would round is a text')
})

t.test('tasks, bounties and keys', async (t) => {
  const ann = at((await main.onboard()).key)
  const task = String(
    parsed(await gas(['task', 'start', 'one', '--budget', '0.1'], ann))['task_id'],
  )
  t.match(parsed(await gas(['task', 'budget', task, '0.2'], ann)), { budget_usdc: 0.2 })
  t.match(rows(await gas(['task', 'ls'], ann)), [{ task_id: task, name: 'one' }])
  t.match(parsed(await gas(['task', 'end', task], ann)), { state: 'completed' })

  t.match(rows(await gas(['task', 'passes'], ann))[0], { pass: 'micro', price_usdc: 1.5 })
  const generous = await startInProcessTestStation(t, { STARTER_CREDITS_USDC: '2' })
  const rich = { GAS_URL: generous.url, GAS_API_KEY: (await generous.onboard()).key }
  const bought = await gas(['task', 'buy', 'micro'], rich)
  t.equal(bought.code, 0, bought.stderr)
  t.match(parsed(bought), { pass: 'micro' })

  const post = ['bounty', 'post', 'Fees', '--domain', 'defi', '--description', 'Base fees']
  const posted = await gas([...post, '--reward', '0.1', '--keywords', 'base,fees'], ann)
  t.equal(posted.code, 0, posted.stderr)
  const bounty = String(parsed(posted)['bounty_id'])
  const bob = at((await main.onboard()).key)
  const claimed = await gas(['bounty', 'claim', bounty, '--content', 'base fees are low'], bob)
  t.match(parsed(claimed), { status: 'claimed' }, claimed.stderr)
  t.match(rows(await gas(['bounty', 'ls', '--mine'], ann)), [{ id: bounty, status: 'claimed' }])

  const made = await gas(['keys', 'create', '--name', 'ci', '--cap-per-day', '0.1'], ann)
  t.match(parsed(made), { name: 'ci', cap_per_day_usdc: 0.1, api_key: /^gas_/ })
  const ids = rows(await gas(['keys', 'ls'], ann)).map(({ key_id }) => key_id)
  t.ok(ids.includes(parsed(made)['key_id']))
  t.match(parsed(await gas(['keys', 'revoke', String(parsed(made)['key_id'])], ann)), {
    revoked: true,
  })
})

t.test('a call whose answer is lost is charged once', async (t) => {
  const agent = await main.onboard()
  let requests = 0
  const proxy = await listen(
    createServer((request, response) => {
      requests += 1
      const lose = requests === 1
      const { method, headers, url } = request
      const forwarded = httpRequest(
        `${main.url}${url}`,
        { method: method ?? 'GET', headers },
        (answer) => {
          if (lose) answer.resume().on('end', () => response.socket?.destroy())
          else answer.pipe(response.writeHead(answer.statusCode ?? 500, answer.headers))
        },
      )
      request.pipe(forwarded)
    }),
  )
  const ran = await gas(['call', 'hive_trending'], { ...at(agent.key), GAS_URL: proxy })
  t.equal(ran.code, 0, ran.stderr)
  t.equal(requests, 2)
  t.equal(await main.balance(agent), 0.495)
})

t.test('tail goes on after a broken connection, without losses and doubles', async (t) => {
  const agent = await main.onboard()
  const sockets = new Set<Socket>()
  const proxy = createTcpServer((socket) => {
    const station = connect(Number(new URL(main.url).port), '127.0.0.1')
    socket.pipe(station).pipe(socket)
    for (const one of [socket, station]) one.on('error', () => undefined)
    sockets.add(socket)
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  t.teardown(() => proxy.close())
  const publish = async (n: number, channel = 'defi:eth') => {
    const json = { channel, type: 'ping', payload: { n } }
    const { status, text } = await main.ask('POST', '/api/signal/publish', { key: agent.key, json })
    t.equal(status < 300, true, text)
  }
  await publish(1)
  const args = ['tail', 'defi:eth', '--since', '0', '--kinds', 'signal', '--count', '4', '--json']
  const env = environment({ ...at(agent.key), GAS_URL: `http://127.0.0.1:${portOf(proxy)}` })
  const tail = spawn(process.execPath, [...serviceProgramArgs('cli'), ...args], { env })
  t.teardown(() => tail.kill())
  const got: unknown[] = []
  for await (const line of createInterface({ input: tail.stdout })) {
    const { data, type } = JSON.parse(line) as { type: string; data: { payload: { n: number } } }
    if (type !== 'event') continue
    got.push(data.payload.n)
    if (got.length === 1) {
      for (const socket of sockets) socket.destroy()
      await publish(2)
      // It is later than the signal of the channel, and replayed before it.
      await publish(2.5, 'agent:me')
    }
    if (got.length === 3) await publish(3)
  }
  t.strictSame(got, [1, 2.5, 2, 3])
  t.match(await gas(['tail'], at('gas_wrong')), { code: 3 })
})

t.test('completion lists verbs and their words', async (t) => {
  const { stdout } = await gas(['completion', 'bash'])
  const complete = (...words: string[]) =>
    execFileSync(
      'bash',
      [
        '-c',
        `${stdout}\nCOMP_WORDS=(${words.join(' ')}); COMP_CWORD=${words.length - 1}; _gas; echo "\${COMPREPLY[*]}"`,
      ],
      { encoding: 'utf8' },
    ).trim()
  t.strictSame(complete('gas', 'ta').split(' ').sort(), ['tail', 'task'])
  t.equal(complete('gas', 'task', 'st'), 'start')
  t.equal(complete('gas', 'task', '--bu'), '--budget')
  const [zsh, fish, other] = await Promise.all([
    gas(['completion', 'zsh']),
    gas(['completion', 'fish']),
    gas(['completion', 'tcsh']),
  ])
  t.match(zsh.stdout, /^#compdef gas/)
  t.match(fish.stdout, /complete -c gas .* -a task /)
  t.equal(other.code, 2)
})

t.test('gas verify finds no difference afterwards', () => main.verify())

t.test('an operator reads the past of an actor, and opens the inspector once', async (t) => {
  const { id } = await main.onboard()
  const operator = { DATABASE_URL: main.database.settings.databaseUrl, PUBLIC_URL: main.url }
  const [told, listed, link] = await Promise.all([
    gas(['history', 'agent', id], operator),
    gas(['history', 'agent', id, '--json'], operator),
    gas(['inspect', '--json'], operator),
  ])
  t.match(told.stdout, /^1 {2}\S+Z {2}\S+ {2}healthy$/m, told.stderr)
  t.match(rows(listed).at(-1), { version: 1, state: 'healthy', context: { promo: 0.5 } })
  const [, code] = /\/inspector#code=(.+)$/.exec(String(parsed(link)['url'])) ?? []
  const open = () => main.ask('POST', '/inspector/session', { json: { code } })
  t.equal((await open()).status, 200)
  t.equal((await open()).status, 401, 'a code opens it once')
})

t.test(
  'an operator archives old months of the journal, and history still shows them',
  async (t) => {
    const { id } = await main.onboard()
    const { sql } = main
    await sql`
    create table journal_2026_01 partition of journal
      for values from ('2026-01-01T00:00:00Z') to ('2026-02-01T00:00:00Z')`
    await sql`update journal set at = '2026-01-05T00:00:00Z' where aggregate_id = ${id}`
    const operator = {
      DATABASE_URL: main.database.settings.databaseUrl,
      JOURNAL_ARCHIVE_DIR: join(t.testdir(), 'new'),
    }
    const refused = await Promise.all([
      gas(['archive'], operator),
      gas(['archive', 'journal'], operator),
      gas(['archive', 'journal', '--before', '2026-13'], operator),
      gas(['archive', 'journal', '--before', '9999-01'], operator),
    ])
    t.strictSame(
      refused.map(({ code }) => code),
      [2, 2, 2, 2],
    )
    t.match(refused[3]?.stderr, /--before must be \d{4}-\d\d or earlier/)
    const done = await gas(['archive', 'journal', '--before', '2026-02'], operator)
    t.match(done, { code: 0, stdout: /^2026-01 {2}1 rows, \d+ bytes {2}journal-2026-01-\S+\.gz$/m })
    const [listed, told, verified] = await Promise.all([
      gas(['archive', 'ls', '--json'], operator),
      gas(['history', 'agent', id, '--json'], operator),
      gas(['verify'], operator),
    ])
    t.match(rows(listed), [{ month: '2026-01', rows: 1, present: true }])
    t.match(rows(told).at(-1), { version: 1, at: '2026-01-05T00:00:00.000Z' })
    t.match(verified, { code: 0, stdout: /ok +I10c +1 / }, verified.stdout)
    const elsewhere = { ...operator, JOURNAL_ARCHIVE_DIR: t.testdirName }
    const [missing, untold, broken] = await Promise.all([
      gas(['archive', 'ls'], elsewhere),
      gas(['history', 'agent', id], elsewhere),
      gas(['verify'], elsewhere),
    ])
    t.match(missing, { code: 1, stdout: /MISSING/ })
    t.match(untold, {
      code: 1,
      stderr: /The file journal-2026-01-\S+ of the archived journal is missing/,
    })
    t.match(broken, { code: 1, stdout: /BROKEN I10c/ })
  },
)
