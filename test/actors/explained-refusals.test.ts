import t from 'tap'
import { CommandRejectedError } from '../../actors/command-context.ts'
import { explainMachineRejection } from '../../actors/inspection/explain-machine-rejection.ts'
import { getMachineStepperOfActorKind } from '../../actors/machine-registry.ts'
import {
  createExplainedRefusalRecorder,
  type ExplainedRefusalCount,
} from '../../calls/explained-refusal-recorder.ts'
import { LIMITS } from '../../core/limits.ts'
import { createDatabaseAdjustedClock } from '../../core/clock.ts'
import { STATE_SPACE_WALK_SUBJECTS } from '../support/machines/machine-random-walk-inputs.ts'

/** Refusals in memory before they are written: how many, and how often they are written. */

const { input, events } = STATE_SPACE_WALK_SUBJECTS.agent
const { snapshot } = getMachineStepperOfActorKind('agent').initial(input)
const actor = {
  kind: 'agent',
  id: 'a',
  snapshot,
  machineVersion: 1,
  fullStateAt: null,
  maxChars: 0,
}

/** A refusal of the agent that differs from others by its figure. */
function refusalOf(figure: number): CommandRejectedError {
  const rejected = { actor, aggregateId: 'a', event: events[0] as never, at: 1 } as const
  const details = { needed_usdc: figure }
  return new CommandRejectedError('payment_required', details, null, rejected as never)
}

function startExplaining() {
  const writes: (readonly ExplainedRefusalCount[])[] = []
  const explained = createExplainedRefusalRecorder({
    clock: createDatabaseAdjustedClock(),
    key: Buffer.alloc(32, 1),
    publicUrl: 'http://gas.test',
    write: async (refusals) => void writes.push(refusals),
    log: (message, error) => t.fail(`${message}: ${String(error)}`),
  })
  const note = (agentId: string, figure: number): unknown => {
    const error = refusalOf(figure)
    explained.note(error, { agentId, keyId: null, requestId: null })
    return error.details['why_url']
  }
  return { explained, note, writes }
}

t.test('an agent in a flood of refusals leaves room for others', async (t) => {
  const { explained, note, writes } = startExplaining()
  for (let figure = 0; figure < 3_000; figure++) note('loud', figure)
  t.type(note('quiet', 1), 'string')
  note('quiet', 1)
  await explained.flush()
  const [written = []] = writes
  const loud = written.filter(({ agentId }) => agentId === 'loud')
  t.equal(loud.length, LIMITS.explainedRefusals)
  t.match(loud.at(-1)?.data, { figures: { needed_usdc: 2_999 } }, 'the latest')
  t.match(
    written.filter(({ agentId }) => agentId === 'quiet'),
    [{ times: 2 }],
  )
})

t.test('readers cause no more than a write a second', async (t) => {
  const { explained, note, writes } = startExplaining()
  note('a', 1)
  await explained.written()
  t.equal(writes.length, 1, 'the first reader does not wait')
  note('a', 2)
  const reader = explained.written()
  note('a', 3)
  await Promise.all([reader, explained.written(), explained.written()])
  t.strictSame(
    writes.map(({ length }) => length),
    [1, 2],
  )
})

t.test('an explanation of a large state is small, and says what it leaves out', async (t) => {
  const { initial, step } = getMachineStepperOfActorKind('fleet')
  let { snapshot } = initial({ fleetId: 'f', ownerId: 'o' })
  for (let at = 0; at < 400; at++)
    ({ snapshot } = step(snapshot, { type: 'JOIN', agentId: `agent ${at}` }))
  const fleet = { ...actor, kind: 'fleet', id: 'f', snapshot } as const
  const event = { type: 'LEAVE', agentId: 'stranger' }
  const { context } = explainMachineRejection({ actor: fleet, aggregateId: 'f', event, at: 1 })
  const members = context['members'] as string[]
  t.equal(members.length, 51)
  t.strictSame(members.slice(-2), ['agent 49', '… 350 more'])
  t.ok(JSON.stringify(context).length < 2_000)
})
