import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { startSandboxHostProcess } from '../../../providers/sandbox/spawn-sandbox-host-process.ts'
import {
  listSandboxLaunchers,
  NOBODY_UID,
  type SandboxLauncher,
} from '../../../providers/sandbox/sandbox-launchers.ts'

const searchPath = process.env['PATH'] ?? ''

/** Actions of a program that has escaped its interpreter; this one runs without an interpreter. */
const ESCAPED = `
const { readFileSync, writeFileSync, readdirSync } = require('node:fs')
const [port, secret] = process.argv.slice(-2)
const attempts = {
  users: () => readFileSync('/etc/passwd', 'utf8'),
  secret: () => readFileSync(secret, 'utf8'),
  list: () => readdirSync('/'),
  write: () => writeFileSync(secret, 'x'),
  child: () => require('node:child_process').execFileSync('/bin/true'),
  net: () => new Promise((resolve, reject) =>
    require('node:net').connect(Number(port), '127.0.0.1', resolve).on('error', reject)),
}
;(async () => {
  const did = []
  for (const [name, work] of Object.entries(attempts)) {
    try { await work(); did.push(name) } catch {}
  }
  console.log(JSON.stringify({ did, env: Object.keys(process.env).filter(name => name !== 'PWD') }))
  process.exit(0)
})()
`

interface Escape {
  readonly did: readonly string[]
  readonly env: readonly string[]
}

/** Results of these actions; null if hosts cannot be started this way on this machine. */
async function escape(
  { command, nobody }: SandboxLauncher,
  given: readonly string[],
  keeps: (flag: string) => boolean = () => true,
): Promise<Escape | null> {
  const [file, ...args] = command('javascript')
  const child = spawn(file, [...args.filter(keeps), ...given], {
    cwd: '/',
    env: {},
    stdio: ['ignore', 'pipe', 'ignore', 'pipe'],
    ...(nobody === true ? { uid: NOBODY_UID, gid: NOBODY_UID } : {}),
  })
  let said = ''
  child.stdout?.on('data', (data: Buffer) => (said += data.toString()))
  await once(child, 'close')
  return said === '' ? null : (JSON.parse(said) as Escape)
}

t.test('the other layers hold without the interpreter', async (t) => {
  const listener = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => listener.close())
  const folder = t.testdir({ 'main.js': ESCAPED, 'package.json': '{}', secret: 'key' })
  const main = join(folder, 'main.js')
  const { port } = listener.address() as AddressInfo
  const given = [String(port), join(folder, 'secret')]
  const root = process.getuid?.() === 0
  const ways = listSandboxLaunchers({ main, readable: [main] }, { searchPath, root })
  const open = process.allowedNodeEnvironmentFlags.has('--allow-net') ? [] : ['net']
  for (const way of ways.filter(({ isolation }, at) => ways[at - 1]?.isolation !== isolation)) {
    await t.test(`${way.isolation} and the permission model`, async (t) => {
      const escaped = await escape(way, given)
      if (escaped === null && way.isolation !== 'process')
        return t.comment(`no host starts by ${way.isolation} here`)
      t.strictSame(escaped, { did: way.isolation === 'process' ? open : [], env: [] })
    })
  }
  const [best] = ways
  if (best?.isolation !== 'bwrap') return t.comment('bwrap is not here')
  await t.test('bwrap alone', async (t) => {
    const escaped = await escape(best, given, (flag) => !/-permission$|^--allow-/.test(flag))
    for (const name of ['users', 'secret', 'net']) t.notOk(escaped?.did.includes(name), name)
    t.strictSame(escaped?.env, [])
    t.equal(readFileSync(join(folder, 'secret'), 'utf8'), 'key')
  })
})

/** A host that answers its job with the names of its environment. */
const TELLING = `
const done = { type: 'done', stderr: '', error: null, truncated: false }
console.log('{"type":"ready"}')
process.stdin.once('data', () =>
  console.log(JSON.stringify({ ...done, result: Object.keys(process.env) })))
`

t.test('a host gets an empty environment', async (t) => {
  const command = () => [process.execPath, '-e', TELLING] as const
  const child = startSandboxHostProcess({ isolation: 'process', command }, 'javascript')
  t.teardown(child.kill)
  t.equal(await child.ready(), true)
  const outcome = await child.run({ code: '', timeoutMs: 20_000 }, { onStart() {}, onOutput() {} })
  t.strictSame('result' in outcome && outcome.result, [])
})

/** Reports ready, prints the given text for a job, and ends. */
const ending = (words: readonly object[]) => `
console.log('{"type":"ready"}')
process.stdin.once('data', () => {
  for (const word of ${JSON.stringify(words)}) console.log(JSON.stringify(word))
  process.exit(0)
})
`

t.test('a host that ends is charged to a program only after that has started', async (t) => {
  const outcomeOf = async (words: readonly object[]) => {
    const command = () => [process.execPath, '-e', ending(words)] as const
    const child = startSandboxHostProcess({ isolation: 'process', command }, 'javascript')
    t.teardown(child.kill)
    await child.ready()
    const heard: string[] = []
    const outcome = await child.run(
      { code: '', timeoutMs: 20_000 },
      { onStart: () => heard.push('begun'), onOutput: (delta) => heard.push(delta) },
    )
    return [outcome.kind, ...heard]
  }
  t.strictSame(await outcomeOf([]), ['lost'])
  t.strictSame(await outcomeOf([{ type: 'begun' }]), ['died', 'begun'])
  const said = [{ type: 'begun' }, { type: 'text', delta: 'x' }]
  t.strictSame(await outcomeOf(said), ['died', 'begun', 'x'], 'its last words are heard')
  const nested = (deep: number): unknown => (deep === 0 ? 1 : [nested(deep - 1)])
  const result = { type: 'done', stderr: '', error: null, truncated: false, result: nested(300) }
  t.strictSame(
    await outcomeOf([{ type: 'begun' }, result]),
    ['died', 'begun'],
    'nothing is trusted',
  )
})
