import { availableParallelism } from 'node:os'
import t from 'tap'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'
import {
  isProgressEventOfStep,
  openRefuelStream,
} from '../../support/http/refuel-stream-test-reader.ts'

/** Hosts of a sandbox are shared out by agent (decision 150). */

const COST = 0.05
const STREAMS = 4
const CALLS = 8
const HOSTS = Math.max(2, availableParallelism() - 1)
const round = (usdc: number): number => Math.round(usdc * 1e6) / 1e6

const GREEDY = { tool: 'code_sandbox', language: 'bash', code: 'echo worth it; sleep 2; exit 3' }

const leaks: string[] = []
process.on('warning', ({ name, message }) => {
  if (name === 'MaxListenersExceededWarning') leaks.push(message)
})

t.test('an agent with four long streams blocks no other agent, and pays for each', async (t) => {
  const on = await startInProcessTestStation(t, { PATH: process.env['PATH'] ?? '' })
  const [greedy, victim] = [await on.onboard(), await on.onboard()]
  const left = await on.balance(greedy)
  const streams = await Promise.all(
    Array.from({ length: STREAMS }, () => openRefuelStream(on, greedy, GREEDY)),
  )
  await Promise.any(
    streams.map((stream) =>
      stream.until(isProgressEventOfStep('program')).then((at) => at ?? Promise.reject()),
    ),
  )
  const ended: string[] = []
  const running = streams.map(async (stream) => {
    const frames = await stream.rest()
    ended.push('greedy')
    return frames.at(-2)
  })
  const calls = await Promise.all(
    Array.from({ length: CALLS }, async (_, n) => {
      const answer = await on.call(victim, 'code_sandbox', { language: 'bash', code: `echo ${n}` })
      ended.push('victim')
      return answer
    }),
  )
  t.strictSame(
    calls.map(({ status, body }) => [status, body['stdout']]),
    Array.from({ length: CALLS }, (_, n) => [200, `${n}\n`]),
    'no call is refused',
  )
  for (const last of await Promise.all(running)) {
    t.match(last, { event: 'result', data: { stdout: 'worth it\n', success: false } })
  }
  t.equal(await on.balance(greedy), round(left - STREAMS * COST), 'each of the four is charged')
  const before = ended.slice(0, ended.lastIndexOf('victim')).filter((one) => one === 'greedy')
  t.ok(
    HOSTS > 2 || before.length < STREAMS,
    `${before.length} of the long ones had ended before the last short one`,
  )
  await on.verify()
})

t.test(
  'long programs of any number of agents leave a host to those of default length',
  async (t) => {
    const on = await startInProcessTestStation(t, { PATH: process.env['PATH'] ?? '' })
    const long = { ...GREEDY, code: 'sleep 20', timeout_ms: 6_000 }
    const started = isProgressEventOfStep('program')
    const open = async () => openRefuelStream(on, await on.onboard(), long)
    const running = await Promise.all(Array.from({ length: HOSTS - 1 }, open))
    await Promise.all(running.map((stream) => stream.until(started)))
    const told: string[] = []
    const ends = running.map(async (stream) => {
      await stream.rest()
      told.push('a long one has ended')
    })
    const waiting = await open()
    await waiting.until(isProgressEventOfStep('run'))
    const runs = waiting.until(started).then(
      (at) => at && told.push('another long one runs'),
      () => 'it has left',
    )
    const short = { language: 'bash', code: 'echo here' }
    const answer = await on.call(await on.onboard(), 'code_sandbox', short)
    t.match(answer, { status: 200, body: { stdout: 'here\n' } })
    t.strictSame(told, [])
    waiting.disconnect()
    await Promise.all([runs, ...ends])
  },
)

t.test('ended hosts leave no listeners', async (t) => {
  t.strictSame(leaks, [])
})
