import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t, { type Test } from 'tap'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { findPythonInterpreters } from '../../support/sdk/python-client-driver.ts'
import { serviceProgramArgs } from '../../support/station/node-args-to-spawn-service-or-cli.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** Five minutes are promised; the budget of the suite allows less. */
const MAX_SECONDS = 120
const UNREACHABLE = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH/

const main = await startInProcessTestStation(t)
const guide = readFileSync(join(REPOSITORY_ROOT, 'docs/quickstart.md'), 'utf8')

/** Commands that a reader has: `gas`, and `python3` in a supported version. */
const bin = join(t.testdir(), 'bin')
mkdirSync(bin)
const [cli = '', ...rest] = serviceProgramArgs('cli').map((arg) =>
  /\.[jt]s$/.test(arg) ? join(REPOSITORY_ROOT, arg) : arg,
)
writeFileSync(
  join(bin, 'gas'),
  `#!/bin/sh\nexec "${process.execPath}" ${[cli, ...rest].map((arg) => `"${arg}"`).join(' ')} "$@"\n`,
)
chmodSync(join(bin, 'gas'), 0o755)
const [python] = findPythonInterpreters()
if (python !== undefined) symlinkSync(python.path, join(bin, 'python3'))

/** Runs the blocks of a section as a reader would paste them; returns what they print. */
async function runSection(heading: string, home = homedir()) {
  const [, section = ''] = guide.split(`\n## ${heading}\n`)
  const [own = ''] = section.split('\n## ')
  const script = [...own.matchAll(/```sh\n([^]*?)```/g)].map(([, text = '']) => text).join('\n')
  // Outside of the repository, so that nothing of it is found by chance.
  const folder = mkdtempSync(join(tmpdir(), 'gas-quickstart-'))
  const child = spawn('bash', ['-euo', 'pipefail', '-c', script], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: `${bin}:${process.env['PATH']}`,
      HOME: home,
      GAS_URL: main.url,
      GAS_REPO: REPOSITORY_ROOT,
      npm_config_prefer_offline: 'true',
    },
  })
  let text = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (part: Buffer) => (text += part.toString('utf8')))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, text, script }
}

async function paidCalls(): Promise<number> {
  const [row] = await main.sql<{ paid: number }[]>`
    select count(*)::int as paid from calls where cost_micros > 0`
  return row?.paid ?? 0
}

/** Runs a section, which has to end with one more paid call. */
async function timed(t: Test, heading: string, work: () => Promise<string>): Promise<void> {
  const [before, started] = [await paidCalls(), performance.now()]
  const text = await work()
  const seconds = (performance.now() - started) / 1_000
  t.comment(`${heading}: a paid call after ${seconds.toFixed(1)} s`)
  t.ok(seconds < MAX_SECONDS, 'in time')
  t.equal((await paidCalls()) - before, 1, text)
}

t.test('TypeScript', async (t) => {
  await timed(t, 'TypeScript', async () => {
    const { code, text } = await runSection('TypeScript')
    if (code !== 0 && UNREACHABLE.test(text)) t.comment('the npm registry is not reachable')
    t.equal(code, 0, text)
    t.match(text, /paid 0\.005 USDC, 0\.495 left/)
    return text
  })
})

t.test('Python', { skip: python === undefined ? 'no Python 3.10 or later' : false }, async (t) => {
  await timed(t, 'Python', async () => {
    const { code, text } = await runSection('Python')
    t.equal(code, 0, text)
    t.match(text, /paid 0\.005 USDC, 0\.495 left/)
    return text
  })
})

t.test('curl', async (t) => {
  await timed(t, 'curl', async () => {
    const { code, text } = await runSection('curl')
    t.equal(code, 0, text)
    t.match(text, /"cost_usdc":0\.005/)
    return text
  })
})

t.test('a desktop client of MCP', async (t) => {
  await timed(t, 'a desktop client of MCP', async () => {
    const home = t.testdir()
    const { code, text } = await runSection('A desktop client of MCP', home)
    t.equal(code, 0, text)
    const file =
      process.platform === 'darwin'
        ? 'Library/Application Support/Claude/claude_desktop_config.json'
        : '.config/Claude/claude_desktop_config.json'
    const { mcpServers } = JSON.parse(readFileSync(join(home, file), 'utf8')) as {
      mcpServers: { gas: { command: string; args: string[]; env: Record<string, string> } }
    }
    return callAsDesktopClient(t, mcpServers.gas)
  })
  await main.verify()
})

/** Starts the server of a configuration as a desktop client does, and calls a tool. */
async function callAsDesktopClient(
  t: Test,
  { command, args, env }: { command: string; args: string[]; env: Record<string, string> },
): Promise<string> {
  const { PATH } = process.env
  const server = spawn(command, args, { env: { PATH, ...env }, stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => server.kill())
  const lines = createInterface(server.stdout)[Symbol.asyncIterator]()
  const send = (message: object) =>
    server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const clientInfo = { name: 'desktop', version: '1' }
  const protocolVersion = '2025-06-18'
  send({ id: 1, method: 'initialize', params: { protocolVersion, capabilities: {}, clientInfo } })
  t.match(await lines.next(), { value: /"serverInfo"/ })
  send({ method: 'notifications/initialized' })
  send({ id: 2, method: 'tools/call', params: { name: 'hive_trending', arguments: { limit: 3 } } })
  const answer = String((await lines.next()).value)
  t.match(answer, /\\?"cost_usdc\\?":0\.005/)
  return answer
}
