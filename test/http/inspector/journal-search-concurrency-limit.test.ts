import t from 'tap'
import { createDatabaseAdjustedClock } from '../../../core/clock.ts'
import { createActorHistoryReadQueue } from '../../../http/inspector/journal-search-concurrency-limit.ts'

/** Searches of the past: how many run and wait at a time. */

t.test('two searches run at a time, and a caller in a flood leaves room for others', async (t) => {
  const run = createActorHistoryReadQueue(createDatabaseAdjustedClock())
  const ends: (() => void)[] = []
  const began: string[] = []
  const search = (caller: string) =>
    run(caller, () => {
      began.push(caller)
      return new Promise<string>((resolve) => ends.push(() => resolve(caller)))
    })
  const flood = Array.from({ length: 30 }, () => search('loud').catch((error: Error) => error))
  const quiet = search('quiet')
  await new Promise(setImmediate)
  t.strictSame(began, ['loud', 'quiet'], 'one of two places is free of it')
  while (ends.length > 0) {
    ends.shift()?.()
    await new Promise(setImmediate)
  }
  t.equal(await quiet, 'quiet')
  const answers = await Promise.all(flood)
  t.equal(answers.filter((answer) => answer === 'loud').length, 21, 'one, and twenty that wait')
  t.match(
    answers.filter((answer) => answer !== 'loud'),
    Array.from({ length: 9 }, () => ({ code: 'overloaded' })),
  )
})

t.test('a search that fails gives its place back', async (t) => {
  const run = createActorHistoryReadQueue(createDatabaseAdjustedClock())
  for (let at = 0; at < 5; at++)
    await t.rejects(
      run('a', () => Promise.reject(new Error('gone'))),
      /gone/,
    )
  t.equal(await run('a', async () => 'read'), 'read')
})
