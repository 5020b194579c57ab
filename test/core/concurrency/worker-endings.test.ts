import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { writeFile } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { createWorkerPool } from '../../../core/concurrency/worker-pool.ts'
import { invalidInputError } from '../../../core/errors.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { createUntrustedWork } from '../../../tools/community/untrusted-work-pool.ts'

/** Processes that end by their heap limit or deadline: only what ended them fails, never the station. */

const program = pathToFileURL(join(REPOSITORY_ROOT, 'test/support/worker-pool-program.ts')).href
const createPool = (t: Test, deadlineMs: number, size = 2) => {
  const pool = createWorkerPool<string>({
    program,
    size,
    deadlineMs,
    maxWaiting: 20,
    maxWaitingOfOwner: 5,
    exhausted: (request) => invalidInputError('', `${request} takes too much`),
  })
  t.teardown(() => pool.close())
  return (owner: string, request: string) => pool.run(request, { owner })
}

for (const [end, request, deadlineMs] of [
  ['its heap limit', 'grow', 60_000],
  ['a single value beyond its heap', 'parse', 60_000],
  ['its deadline', 'spin', 1_500],
] as const) {
  t.test(
    `a process that ends by ${end} fails one request, and all that wait are served`,
    async (t) => {
      const run = createPool(t, deadlineMs, 1)
      const bad = run('bad', request)
      const waiting = [run('bad', 'own'), run('ann', 'a'), run('bob', 'b'), run('ann', 'c')]
      await t.rejects(bad, { code: 'invalid_input', message: `${request} takes too much` })
      t.strictSame(await Promise.all(waiting), ['own', 'a', 'b', 'c'])
    },
  )

  t.test(
    `the next request of an owner is served after ${end}, though nobody else asks`,
    async (t) => {
      const run = createPool(t, deadlineMs)
      // One process that is ready: no other one comes that would serve what waits.
      await run('bad', 'warm')
      const [bad, next] = [run('bad', request), run('bad', 'next')]
      await t.rejects(bad)
      t.equal(await next, 'next')
    },
  )
}

t.test('an owner has one place, whatever it asks, and others pass', async (t) => {
  const run = createPool(t, 60_000)
  const ended: string[] = []
  const note = (name: string) => () => void ended.push(name)
  const pipe = join(t.testdir(), 'pipe')
  execFileSync('mkfifo', [pipe])
  const own = [run('bad', pipe), run('bad', 'own')].map((one) => one.then(note('own')))
  await Promise.all(['a', 'b', 'c'].map((name) => run(name, name).then(note(name))))
  t.strictSame(ended, ['a', 'b', 'c'], 'on one process, while the other is held')
  const more = Array.from({ length: 5 }, () => run('bad', 'x').then(note('x'), note('refused')))
  await writeFile(pipe, 'go')
  await Promise.all([...own, ...more])
  t.equal(ended.filter((name) => name === 'refused').length, 1, 'its waiting requests have a bound')
})

t.test('owners with many requests take turns with those who come later', async (t) => {
  const run = createPool(t, 60_000, 1)
  const served: string[] = []
  const note = (name: string) => () => void served.push(name)
  const pipe = join(t.testdir(), 'pipe')
  execFileSync('mkfifo', [pipe])
  const own = [pipe, 'x', 'x', 'x'].map((request) => run('bad', request).then(note('bad')))
  const late = ['ann', 'bob'].map((name) => run(name, name).then(note(name)))
  await writeFile(pipe, 'go')
  await Promise.all([...own, ...late])
  t.strictSame(served.slice(0, 3), ['bad', 'ann', 'bob'])
})

t.test('calls wait for no registration and no import', async (t) => {
  const work = createUntrustedWork({ size: 1 })
  t.teardown(() => work.close())
  const text = `{"openapi":"3.1.0","paths":{},"x":[${'{},'.repeat(300_000)}1]}`
  const source = { text, documentUrl: 'https://x.test/', baseUrl: null }
  const validate = () => work.validate('bob', '{"type":"object"}', {})
  await validate()
  let ended = 0
  const importing = Array.from({ length: 8 }, async (_, n) => {
    await work.listOperations(`agent ${n}`, source, null)
    ended += 1
  })
  await Promise.race(importing)
  t.strictSame(await validate(), [])
  t.ok(ended < importing.length, 'other imports wait')
  await Promise.all(importing)
})

t.test('work of strangers that a process cannot do has a problem by its kind', async (t) => {
  // No work is done in this time.
  const work = createUntrustedWork({ deadlineMs: 0, size: 1 })
  t.teardown(() => work.close())
  const source = {
    text: `[${'{},'.repeat(300_000)}1]`,
    documentUrl: 'https://x.test/',
    baseUrl: null,
  }
  const reply = {
    kind: 'http-json',
    id: 0,
    status: 200,
    contentType: 'application/json',
    body: Buffer.from(`{"a":${source.text}}`),
    secrets: [],
  } as const
  await t.rejects(work.listOperations('bad', source, null), {
    code: 'import_refused',
    message: /takes too much time or memory/,
  })
  await t.rejects(work.judge('bad', '{"type":"object"}', reply), {
    code: 'upstream_error',
    details: { reason: 'answer_too_complex' },
  })
  await t.rejects(work.validate('bad', '{"type":"object"}', { a: reply.body.toJSON() }), {
    code: 'invalid_input',
    message: /takes too much time or memory/,
  })
})
