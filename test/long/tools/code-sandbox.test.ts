import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { availableParallelism } from 'node:os'
import t from 'tap'
import { listSandboxLaunchers } from '../../../providers/sandbox/sandbox-launchers.ts'
import type { SandboxLanguage } from '../../../providers/sandbox/sandbox-port.ts'
import { prepareSandboxHostProgram } from '../../../providers/sandbox/prepare-sandbox-host-program.ts'
import type { TestReply, TestReplyBody } from '../../support/http/test-http-client.ts'
import {
  isProgressEventOfStep,
  openRefuelStream,
} from '../../support/http/refuel-stream-test-reader.ts'
import {
  spawnSecondNode,
  startInProcessTestStation,
  type TestAgent,
  type TestStation,
} from '../../support/station/start-test-station.ts'
import {
  sandboxAttacks,
  TIMED_OUT_PATTERN,
  type SandboxAttack,
} from '../../support/sandbox/sandbox-attacks.ts'

const COST = 0.05
const searchPath = process.env['PATH'] ?? ''
const HOSTS = Math.max(2, availableParallelism() - 1)
/** Programs of one agent that may wait for a host of their language. */
const WAITING = 16

interface Ran extends TestReply {
  readonly body: TestReplyBody & {
    readonly stdout: string
    readonly result: unknown
    readonly error: string
    readonly success: boolean
    readonly truncated: boolean
    readonly execution_time_ms: number
    readonly isolation: string
  }
}

const ONE_AND_ONE: Record<SandboxLanguage, { code: string; answer: unknown }> = {
  javascript: { code: '1+1', answer: { result: 2, stdout: '' } },
  bash: { code: 'echo $((1+1))', answer: { result: 0, stdout: '2\n' } },
  python: { code: '1+1', answer: { result: 2, stdout: '' } },
}

/** Processes below one, however deep. */
function descendants(pid: number): number[] {
  const file = `/proc/${pid}/task/${pid}/children`
  const children = existsSync(file) ? readFileSync(file, 'utf8').trim().split(' ') : []
  return children.flatMap((text) =>
    text === '' ? [] : [Number(text), ...descendants(Number(text))],
  )
}

const commandOf = (pid: number): string => {
  const file = `/proc/${pid}/cmdline`
  return existsSync(file) ? readFileSync(file, 'latin1').replaceAll('\0', ' ') : ''
}

/** Node processes that run programs of this language, below a process. */
const hostsOf = (pid: number, language: SandboxLanguage): number[] =>
  descendants(pid).filter((below) =>
    new RegExp(`^\\S*node .*sandbox-host-child-process-entry\\.js ${language}`).test(
      commandOf(below),
    ),
  )

const isGone = (pid: number): boolean => commandOf(pid) === ''

/** The end of a process of another parent has to be polled. */
async function gone(pids: readonly number[]): Promise<boolean> {
  for (let looks = 0; looks < 500; looks += 1) {
    if (pids.every(isGone)) return true
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  return false
}

/** A streamed program; settles once it has begun. */
async function streamed(station: TestStation, guest: TestAgent, fields: object) {
  const stream = await openRefuelStream(station, guest, { tool: 'code_sandbox', ...fields })
  await stream.until(isProgressEventOfStep('program'))
  return stream
}

/** Starts a host, runs an endless program in it, and reports it. */
const PARENT = `
const [file, ...args] = JSON.parse(process.argv[1])
const { stdin, stdout } = require('node:child_process').spawn(file, args, {
  cwd: '/', env: {}, stdio: ['pipe', 'pipe', 'ignore'],
})
const job = { code: 'print("begun")\\nwhile True: pass', timeoutMs: 10000 }
stdout.on('data', (said) => {
  if (said.includes('ready')) stdin.write(JSON.stringify(job) + '\\n')
  if (said.includes('begun')) console.log('busy')
})
`

t.test('code_sandbox', async (t) => {
  const station = await startInProcessTestStation(t, {
    STARTER_CREDITS_USDC: '50',
    PATH: searchPath,
  })
  const guest = await station.onboard()
  const run = (language: SandboxLanguage, code: string, timeout = 10_000) =>
    station.call(guest, 'code_sandbox', { code, language, timeout_ms: timeout }) as Promise<Ran>
  let connections = 0
  const listener = createServer((socket) => {
    connections += 1
    socket.destroy()
  }).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => listener.close())
  const { port } = listener.address() as AddressInfo

  await t.test('no process runs before the first program', async (t) => {
    t.strictSame(
      descendants(process.pid).filter((pid) =>
        /sandbox-host-child-process-entry/.test(commandOf(pid)),
      ),
      [],
    )
    const { body } = await station.ask('GET', '/api/network/health')
    t.match(body, { dependencies: { sandbox: { ok: true, kind: 'untried' } } })
  })

  await t.test('python: output, the last expression, `result`, exceptions', async (t) => {
    const { status, body } = await station.call(guest, 'code_sandbox', {
      code: 'import math\nprint("hello")\ndef f(n): return math.comb(n, 2)\n{"a": [f(5), None, 0.5]}',
    })
    t.match(
      { status, body },
      {
        status: 200,
        body: {
          stdout: 'hello\n',
          stderr: '',
          result: { a: [10, null, 0.5] },
          error: null,
          success: true,
          _meta: { cost_usdc: COST },
        },
      },
    )
    t.match((await run('python', 'result = 7\nx = 1')).body, { result: 7, success: true })
    t.match((await run('python', '2**80')).body, { result: '1208925819614629174706176' })
    t.match((await run('python', 'float("nan"), {1}')).body, { result: ['nan', '{1}'] })
    const failed = await run('python', 'def f():\n  raise ValueError("no")\nprint("before")\nf()')
    t.match(failed.body, {
      success: false,
      stdout: 'before\n',
      result: null,
      _meta: { cost_usdc: COST },
    })
    t.match(failed.body.error, /^Traceback[^]*"code.py", line 4[^]*line 2, in f[^]*ValueError: no$/)
    t.notMatch(failed.body.error, /runner|__run/)
    t.match((await run('python', 'def f(:')).body, { success: false, error: /SyntaxError/ })
    t.match((await run('python', 'import sys\nsys.exit(4)')).body, { error: 'SystemExit: 4' })
  })

  await t.test('javascript: completion values, promises, modules, exceptions', async (t) => {
    const logged = await run('javascript', 'console.log("a", {b: 1}); console.error("e"); [1, 2n]')
    t.match(logged.body, { stdout: 'a {"b":1}\n', stderr: 'e\n', result: [1, '2'], success: true })
    t.match((await run('javascript', 'Promise.resolve({x: 3})')).body, { result: { x: 3 } })
    const module = 'const x = await Promise.resolve(4); export default x + 1'
    t.match((await run('javascript', module)).body, { result: 5, success: true })
    const failed = await run('javascript', 'function f(){ throw new TypeError("no") }\nf()')
    t.match(failed.body, { success: false, error: /^TypeError: no\n.*at f \(code\.js:1/ })
    t.match((await run('javascript', 'new Promise(() => {})')).body, { error: /never settled/ })
  })

  await t.test('bash: pipes, a private file system, the exit code', async (t) => {
    const { body } = await run('bash', 'printf "b\\na\\n" > f; sort f; cat f | wc -l; echo e >&2')
    t.match(body, {
      stdout: /^a\nb\n\s*2\n$/,
      stderr: 'e\n',
      result: 0,
      error: null,
      success: true,
    })
    t.match((await run('bash', 'ls f')).body, { success: false, error: /No such file/ })
    t.match((await run('bash', 'exit 3')).body, { result: 3, error: 'exit code 3' })
  })

  await t.test('output is truncated and marked', async (t) => {
    const [python, javascript] = await Promise.all([
      run('python', 'print("x" * 50_000_000)'),
      run('javascript', 'for (let i = 0; i < 6000; i++) console.log("0123456789".repeat(11))'),
    ])
    for (const { status, body } of [python, javascript]) {
      t.equal(status, 200)
      t.equal(body.truncated, true)
      t.equal(Buffer.byteLength(JSON.stringify(body.stdout)) - 2 <= 512 * 1024, true)
      t.ok(body.stdout.length > 200_000)
    }
  })

  await t.test('stdout is streamed in parts after the charge', async (t) => {
    const code = 'import time\nfor n in range(3):\n  print(n)\n  time.sleep(0.05)\n"end"'
    const { rest } = await streamed(station, guest, { code })
    const frames = await rest()
    const told = frames.map(({ event, data }) => data['step'] ?? data['delta'] ?? event)
    t.strictSame(told.slice(1, -2), ['run', 'program', 'settle', '0\n', '1\n', '2\n'])
    t.match(frames.at(-2), { event: 'result', data: { result: 'end' } })
  })

  await t.test('a program that cannot run is rejected and costs nothing', async (t) => {
    const before = await station.balance(guest)
    for (const fields of [
      {},
      { code: '' },
      { code: '1', language: 'perl' },
      { code: '1', timeout_ms: 10_001 },
    ]) {
      t.match(await station.call(guest, 'code_sandbox', fields), { status: 400 })
    }
    t.equal(await station.balance(guest), before)
  })

  await t.test(
    'an agent above its queue limit is rejected, without affecting others',
    async (t) => {
      const before = await station.balance(guest)
      const crowd = Array.from({ length: WAITING + HOSTS + 3 }, () =>
        run('javascript', 'while(1){}', 100),
      )
      const others = await Promise.all(
        Array.from({ length: 10 }, () =>
          station.call(guest, 'agent_reputation', { agent_id: guest.id }),
        ),
      )
      t.ok(
        others.every(({ status }) => status === 200),
        'other calls are answered meanwhile',
      )
      const ended = await Promise.all(crowd)
      const refused = ended.filter(({ status }) => status === 503)
      t.ok(refused.length > 0)
      for (const { body } of refused) {
        t.match(body, { code: 'sandbox_busy', refunded: true, cost_usdc: 0, retry_after: 2 })
      }
      const late = ended.filter(({ status }) => status === 200)
      t.ok(late.length >= WAITING)
      for (const { body } of late) t.match(body, { success: false, error: TIMED_OUT_PATTERN })
      t.equal(await station.balance(guest), round(before - late.length * COST))
      t.comment(`${late.length} ran, ${refused.length} were refused`)
    },
  )

  await t.test('a host that dies during a program is charged to that program', async (t) => {
    const before = await station.balance(guest)
    const code = 'print("begun")\nwhile True: pass'
    const { rest } = await streamed(station, guest, { code, timeout_ms: 10_000 })
    for (const pid of hostsOf(process.pid, 'python')) process.kill(pid, 'SIGKILL')
    const error = 'the program ended the process it ran in'
    t.match((await rest()).at(-2), { event: 'result', data: { success: false, error } })
    t.equal(await station.balance(guest), round(before - COST))
    t.match((await run('python', '1+1')).body, { result: 2 })
  })

  /** Starts while this one is attacked. */
  const doomed = spawnSecondNode(t, station, { PATH: searchPath })

  await t.test('no program escapes', async (t) => {
    const list = sandboxAttacks(port)
    const figures: string[] = []
    /** One after another in each language, all languages at once. */
    const underWay = Object.entries(list).map(async ([name, attempts]) => {
      const language = name as SandboxLanguage
      const outcomes: { attack: SandboxAttack; answer: Ran }[] = []
      for (const attack of attempts) {
        outcomes.push({ attack, answer: await run(language, attack.code, attack.timeout) })
      }
      return { language, outcomes, after: await run(language, ONE_AND_ONE[language].code) }
    })
    for (const { language, outcomes, after } of await Promise.all(underWay)) {
      for (const { attack, answer } of outcomes) {
        await t.test(`${language}: ${attack.name}`, async (t) => {
          const { error, result } = attack
          const { body } = answer
          t.equal(answer.status, 200, answer.text)
          if (error === undefined) t.strictSame(body.result, result)
          else t.ok(error.test(body.error) || TIMED_OUT_PATTERN.test(body.error), body.error)
          t.equal(body.success, error === undefined)
          figures.push(`${language}: ${attack.name}: ${body.execution_time_ms} ms`)
        })
      }
      await t.test(`${language}: the pool still answers 1+1`, async (t) => {
        t.match(after, { status: 200, body: ONE_AND_ONE[language].answer })
      })
    }
    t.equal(connections, 0)
    t.comment(figures.join('\n'))
  })

  await t.test('health and the catalogue report its isolation', async (t) => {
    const kind = (await run('javascript', '1')).body.isolation
    t.match(kind, /^(bwrap|unshare|process)$/)
    const { body } = await station.ask('GET', '/api/network/health')
    t.match(body, { dependencies: { sandbox: { ok: true, kind } } })
    const { body: entry } = await station.ask('GET', '/api/tools/code_sandbox')
    t.match(entry, {
      price_usdc: COST,
      access: 'paid',
      availability: { available: true, mode: kind },
    })
    t.comment(`isolation here: ${kind}`)
  })

  await t.test('a killed station leaves no process behind', async (t) => {
    const other = await doomed
    const code = 'print("begun")\nwhile True: pass'
    const { rest } = await streamed(other, guest, { code, timeout_ms: 10_000 })
    await other.call(guest, 'code_sandbox', { code: '1', language: 'javascript' })
    const { pid = 0 } = other.child
    const below = descendants(pid)
    t.equal(hostsOf(pid, 'python').length, 1)
    t.equal(hostsOf(pid, 'javascript').length, 1)
    rest().catch(() => {})
    await other.end('SIGKILL')
    t.ok(await gone(below), `${below.length} processes have ended`)
  })

  await t.test('a killed station without bwrap and unshare leaves no process behind', async (t) => {
    const plain = listSandboxLaunchers(await prepareSandboxHostProgram(), {
      searchPath: '',
      root: false,
    })[0]
    const command = JSON.stringify(plain?.command('python'))
    // The process watcher of the test runner would be loaded into the host, which rejects it.
    const parent = spawn('env', ['-i', process.execPath, '-e', PARENT, command], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.teardown(() => parent.kill('SIGKILL'))
    await Promise.race([once(parent.stdout, 'data'), once(parent, 'exit')])
    t.equal(parent.exitCode, null)
    const below = descendants(parent.pid ?? 0)
    t.equal(below.length, 1)
    parent.kill('SIGKILL')
    t.ok(await gone(below))
  })

  await t.test('no program runs below the required isolation', async (t) => {
    const strict = await startInProcessTestStation(
      t,
      { SANDBOX_MIN_ISOLATION: 'bwrap', PATH: '' },
      { database: station.database },
    )
    const before = await strict.balance(guest)
    const { status, body } = await strict.call(guest, 'code_sandbox', { code: '1' })
    t.match({ status, body }, { status: 503, body: { code: 'provider_not_configured' } })
    t.equal(await strict.balance(guest), before)
    const health = await strict.ask('GET', '/api/network/health')
    t.match(health.body, { status: 'degraded', dependencies: { sandbox: { ok: false } } })
    await strict.station.close()
  })

  await station.verify()
  await station.station.close()
  t.strictSame(
    descendants(process.pid).filter((pid) =>
      /sandbox-host-child-process-entry/.test(commandOf(pid)),
    ),
    [],
  )
})

const round = (usdc: number): number => Math.round(usdc * 1e6) / 1e6
