import t from 'tap'
import { ServiceError } from '../../core/errors.ts'
import type { CommunityToolRecord } from '../../domain/community-tool-record.ts'
import { createToolBuilderCircuitBreaker } from '../../tools/community/tool-builder-circuit-breaker.ts'
import type { CommunityCallOutcome } from '../../tools/community/forward-community-tool-call.ts'

/** The breaker of a builder: when it opens, and which answer to the example closes it. */

const GOOD: CommunityCallOutcome = { ok: true, output: {} }
const failed = (isCallersFault: boolean): CommunityCallOutcome => ({
  ok: false,
  error: new ServiceError('upstream_error'),
  detail: '',
  isCallersFault,
})
const { signal } = new AbortController()
const toolWith = (example: object | null) =>
  ({ slug: 'a', builderId: 'b', measuredFrom: 0, definition: { example } }) as CommunityToolRecord

function startHealth(tool: CommunityToolRecord) {
  const state = { at: 0, answer: failed(false), sent: [] as unknown[], pause: Promise.resolve() }
  const health = createToolBuilderCircuitBreaker({
    callMs: 15_000,
    clock: { mono: () => state.at, now: () => state.at },
    async send(_tool, { callerId }) {
      state.sent.push(callerId)
      await state.pause
      return state.answer
    },
  })
  const call = { callId: 'c', input: {}, signal }
  const forward = (callerId = 'buyer') => health.forward(tool, { ...call, callerId })
  const reach = (callerId = 'buyer') => health.assertReachable(tool, callerId)
  return { state, forward, reach }
}

t.test('the example finds out whether a builder answers again, once for all callers', async (t) => {
  const { state, forward, reach } = startHealth(toolWith({ city: 'Rome' }))
  for (let n = 0; n < 5; n += 1) {
    await reach()
    await forward()
  }
  await t.rejects(reach(), { code: 'tool_unavailable' })
  state.sent.length = 0
  state.at = 30_000
  await Promise.all([1, 2, 3].map(() => t.rejects(reach(), { code: 'tool_unavailable' })))
  t.strictSame(state.sent, ['station'])
  await t.rejects(reach(), { code: 'tool_unavailable' }, 'a failed probe waits again')
  state.at = 60_000
  state.answer = failed(true)
  await reach()
  state.answer = GOOD
  await forward()
  t.strictSame(state.sent, ['station', 'station', 'buyer'])
})

t.test('while the example hangs one caller waits and all others are refused at once', async (t) => {
  const { state, forward, reach } = startHealth(toolWith({ city: 'Rome' }))
  for (let n = 0; n < 5; n += 1) await forward()
  state.sent.length = 0
  state.at = 30_000
  let answer = () => {}
  state.pause = new Promise((resolve) => (answer = resolve))
  const first = reach()
  const refused = { code: 'tool_unavailable', details: { retry_after: 1 } }
  const others = [1, 2, 3].map(() => t.rejects(reach(), refused))
  state.answer = GOOD
  answer()
  await Promise.all([first, ...others])
  await reach()
  t.strictSame(state.sent, ['station'], 'one call of the builder')
})

t.test('without an example one call finds out', async (t) => {
  const { state, forward, reach } = startHealth(toolWith(null))
  for (let n = 0; n < 5; n += 1) await forward()
  state.at = 30_000
  await reach()
  await t.rejects(reach(), { code: 'tool_unavailable' })
  state.answer = GOOD
  await forward()
  await reach()
})

t.test(
  'one payer whose calls fail is refused by itself, three of them close the tool',
  async (t) => {
    const { state, forward, reach } = startHealth(toolWith({ city: 'Rome' }))
    for (let n = 0; n < 40; n += 1) await forward('stranger')
    await t.rejects(reach('stranger'), { code: 'tool_unavailable' })
    await reach('buyer')
    for (let n = 0; n < 40; n += 1) await forward('second')
    await reach('buyer')
    await forward('third')
    await t.rejects(reach('buyer'), { code: 'tool_unavailable' })
    state.at = 30_000
    state.answer = GOOD
    await reach('buyer')
    t.equal(state.sent.at(-1), 'station', 'the example opens it for all')
  },
)

t.test('a caller that waits for a slow builder leaves places to others', async (t) => {
  const { state, forward, reach } = startHealth(toolWith(null))
  let answer = () => {}
  state.pause = new Promise((resolve) => (answer = resolve))
  const waiting = Array.from({ length: 16 }, () => forward('stranger'))
  await t.rejects(reach('stranger'), { code: 'tool_unavailable' })
  await reach('buyer')
  answer()
  await Promise.all(waiting)
})
