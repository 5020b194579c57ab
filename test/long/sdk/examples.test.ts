import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { startTestStationWithPaymentChain } from '../../support/payments/test-station-with-payment-chain.ts'
import { findPythonInterpreters } from '../../support/sdk/python-client-driver.ts'

const EXAMPLES = join(REPOSITORY_ROOT, 'examples')
const programs = readdirSync(EXAMPLES).filter((name) => /\.(ts|py)$/.test(name))
const { main, till } = await startTestStationWithPaymentChain(t)
const privateKey = generatePrivateKey()
await till.mintUsdc(privateKeyToAccount(privateKey).address, 100_000n)

/** A model that asks for a tool, and then repeats what the tool cost. */
const models = createServer((request, reply) => {
  let text = ''
  request.on('data', (part: Buffer) => (text += part.toString('utf8')))
  request.on('end', () => {
    const { messages, tools } = JSON.parse(text) as {
      messages: { role: string; content: string }[]
      tools: { function: { name: string } }[]
    }
    const seen = messages.find(({ role }) => role === 'tool')
    const name = tools.map((tool) => tool.function.name).find((one) => one === 'hive_trending')
    const message =
      seen === undefined
        ? { tool_calls: [{ id: 'call_1', type: 'function', function: { name, arguments: '{}' } }] }
        : { content: `It cost ${/"cost_usdc":([\d.]+)/.exec(seen.content)?.[1]}.` }
    reply.setHeader('content-type', 'application/json')
    reply.end(JSON.stringify({ choices: [{ message: { role: 'assistant', ...message } }] }))
  })
})
await new Promise<void>((ready) => models.listen(0, '127.0.0.1', ready))
t.teardown(() => models.close())

const run = (program: string, args: readonly string[]) =>
  new Promise<string>((resolve) => {
    const env = {
      PATH: process.env['PATH'],
      GAS_URL: main.url,
      PRIVATE_KEY: privateKey,
      OPENAI_BASE_URL: `http://127.0.0.1:${(models.address() as AddressInfo).port}/v1`,
    }
    const done = (error: Error | null, out: string, err: string) =>
      resolve(error === null ? out : `${out}${err}${error.message}`)
    execFile(program, args, { cwd: REPOSITORY_ROOT, env, timeout: 120_000 }, done)
  })

/** What each program prints last. */
const LAST_LINES: Readonly<Record<string, RegExp>> = {
  'first-call.ts': /^paid 0\.005 USDC, 0\.495 left, receipt gr1\./,
  'budget-and-fuse.ts': /^its fuse tripped at call 3: backpack\.per_day/,
  'pay-per-call.ts': /^not paid: the call costs 0\.03 USDC, and the hook pays at most 0\.01 a call/,
  'stream-call-and-signals.ts': /^signal at \d+: \{"degrees":22\}/,
  'model-with-tools.ts': /^1 calls for 0\.005 USDC/,
  'first_call.py': /^result 0\.005/,
}

t.strictSame(programs.toSorted(), Object.keys(LAST_LINES).toSorted(), 'each program is run')

for (const name of programs) {
  const [python] = findPythonInterpreters()
  const isPython = name.endsWith('.py')
  const skip = isPython && python === undefined ? 'no Python 3.10 or later' : false
  t.test(name, { skip }, async (t) => {
    const path = join(EXAMPLES, name)
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n').length
    t.ok(lines >= 20 && lines <= 60, `${lines} lines`)
    const out = isPython
      ? await run(python?.path ?? '', [path])
      : await run(process.execPath, ['--import', 'tsx', path])
    t.match(out.trimEnd().split('\n').at(-1), LAST_LINES[name] ?? /$^/, out)
  })
}

t.test('the books agree afterwards', async () => main.verify())
