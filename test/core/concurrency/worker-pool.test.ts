import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t from 'tap'
import { createWorkerPool } from '../../../core/concurrency/worker-pool.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

const LIMIT_MS = 400
/** Starts slowly; then waits, or works, as long as it is told. */
const lines = [
  'const still = new Int32Array(new SharedArrayBuffer(4))',
  `Atomics.wait(still, 0, 0, ${2 * LIMIT_MS})`,
  'serveWorkerRequests(({ waitMs, workMs }) => {',
  '  Atomics.wait(still, 0, 0, waitMs)',
  '  const spent = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1e3 }',
  '  const before = spent()',
  '  while (spent() - before < workMs);',
  "  return 'done'",
  '})',
]
const from = pathToFileURL(join(REPOSITORY_ROOT, 'core/concurrency/serve-worker-requests.ts')).href
const source = `import { serveWorkerRequests } from ${JSON.stringify(from)}\n${lines.join('\n')}`

t.test(
  'the limit of a request counts what its process works, not its start or its wait',
  async (t) => {
    const folder = t.testdir({ 'program.ts': source, 'package.json': '{"type":"module"}' })
    const pool = createWorkerPool<{ waitMs: number; workMs: number }>({
      program: `file://${folder}/program.ts`,
      size: 1,
      deadlineMs: LIMIT_MS,
      maxWaiting: 8,
      exhausted: (_, cause) => cause,
    })
    t.teardown(() => pool.close())
    const run = (waitMs: number, workMs: number) => pool.run({ waitMs, workMs }, { owner: 'a' })
    const first = run(0, 1)
    const behind = run(0, 1)
    t.strictSame([await first, await behind], ['done', 'done'], 'a slow start')
    t.equal(await run(2 * LIMIT_MS, 1), 'done', 'a process that gets no processor')
    await t.rejects(run(0, 20 * LIMIT_MS), /has ended/, 'too much work')
    await t.rejects(run(60 * LIMIT_MS, 1), /has ended/, 'a wait without end')
    t.equal(await run(0, 1), 'done', 'on a new process')
  },
)
