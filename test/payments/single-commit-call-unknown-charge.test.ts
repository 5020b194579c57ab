import t from 'tap'
import {
  CommandNotCommittedError,
  commitOutcomeUnknownError,
} from '../../actors/unanswered-commit-errors.ts'
import { executeSingleCommitCall } from '../../calls/single-commit-call.ts'
import { ServiceError } from '../../core/errors.ts'
import { asMicros } from '../../core/money.ts'
import type { ToolContext } from '../../tools/define-tool.ts'

/** Runs an instant call whose commit ends with this error. */
async function endWith(failure: Error) {
  const seen = { runs: 0, undone: 0, asked: 0 }
  const tool = {
    slug: 'made',
    category: 'memory',
    effect: 'none',
    instant: true,
    async run(_input: unknown, { stage }: ToolContext) {
      seen.runs += 1
      stage.undo(async () => void (seen.undone += 1))
      return {}
    },
  }
  const parts = {
    clock: { now: () => 0, mono: () => 0 },
    catalogue: { validateOutput() {} },
    ports: {},
    refusals: { noteError() {} },
    explained: { note() {} },
    isOutage: () => false,
    log() {},
    actors: {
      async ask() {
        seen.asked += 1
        throw failure
      },
    },
  }
  const caller = { agentId: 'a', key: null, visitorId: 'v' }
  const connection = { closed: false }
  const request = { caller, connection, idempotency: null, taskId: null, backpackId: null }
  const plan = { tool, input: {}, price: asMicros(5n), request }
  const error = await executeSingleCommitCall(parts as never, plan as never, 'call').catch(
    (thrown: unknown) => thrown,
  )
  return { ...seen, error: error as ServiceError }
}

t.test(
  'a commit with an unknown outcome is said to be unknown, and nothing is undone',
  async (t) => {
    const { error, ...seen } = await endWith(commitOutcomeUnknownError())
    t.match(error, { code: 'unavailable', details: { call_id: 'call', detail: /not known yet/ } })
    t.strictSame(seen, { runs: 1, undone: 0, asked: 1 })
  },
)

t.test('a command that was never sent is not said to be charged', async (t) => {
  const { error, ...seen } = await endWith(new CommandNotCommittedError())
  t.match(error, { code: 'unavailable', details: { call_id: 'call', tool: 'made' } })
  t.notMatch(error.details['detail'], /not known/)
  t.strictSame(seen, { runs: 1, undone: 1, asked: 1 })
})

t.test('an unexpected error runs nothing a second time and undoes nothing', async (t) => {
  const { error, ...seen } = await endWith(new Error('a bug'))
  t.match(error, { code: 'internal' })
  t.strictSame(seen, { runs: 1, undone: 0, asked: 1 })
})

t.test('a rejection undoes what the tool claimed', async (t) => {
  const { error, ...seen } = await endWith(new ServiceError('task_budget_exceeded'))
  t.match(error, { code: 'task_budget_exceeded', details: { call_id: 'call', tool: 'made' } })
  t.strictSame(seen, { runs: 1, undone: 1, asked: 1 })
})
