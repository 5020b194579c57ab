import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { DAY } from '../../core/clock.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import {
  communityToolMachine,
  communityToolPriceAt,
  type CommunityToolMachineEvent,
} from '../../machines/community-tool-machine.ts'
import {
  microUsd,
  readGoldenSnapshots,
  restoreSnapshot,
  stepMachineToInitialState,
  stepStateMachine,
} from '../support/machines/state-machine-stepper.ts'

/** The states of a community tool, its price and what measured calls decide. */

type Snapshot = SnapshotFrom<typeof communityToolMachine>
const NOON = Date.UTC(2026, 10, 21, 12)
const [BUILDER, OTHER] = ['builder', 'other']

const start = stepMachineToInitialState(communityToolMachine, {
  toolId: 't',
  slug: 'weather-now',
  builderId: BUILDER,
  price: microUsd(10_000),
  acceptsPromo: false,
  at: NOON,
}).snapshot
const after = (from: Snapshot, ...events: CommunityToolMachineEvent[]): Snapshot =>
  events.reduce((at, event) => stepStateMachine(communityToolMachine, at, event).snapshot, from)
const prove = (at = NOON): CommunityToolMachineEvent => ({ type: 'PROVE', at })
const measure = (
  [calls, successes, payers]: readonly [number, number, number],
  since = NOON,
): CommunityToolMachineEvent => ({
  type: 'MEASURE',
  since,
  calls,
  successes,
  payers,
  failingPayers: payers,
  at: NOON + DAY,
})
const change = (
  price: number | null,
  at = NOON,
  builderId = BUILDER,
): CommunityToolMachineEvent => ({
  type: 'CHANGE',
  builderId,
  price: price === null ? null : microUsd(price),
  noticeMs: DAY,
  acceptsPromo: null,
  revised: false,
  at,
})
const by = (type: 'SUBMIT' | 'RETIRE' | 'ROTATE_SECRET', builderId = BUILDER) =>
  ({ type, builderId, at: NOON }) as const
const review = (accepted: boolean): CommunityToolMachineEvent => ({
  type: 'REVIEW',
  accepted,
  reason: accepted ? null : 'The description is wrong.',
  at: NOON,
})

t.test('results of all events in each state', async (t) => {
  const probation = after(start, prove())
  const listed = after(probation, measure([10, 9, 3]))
  const suspended = after(listed, measure([50, 24, 3]))
  const retired = after(listed, by('RETIRE'))
  const verified = after(listed, review(true))
  const later = after(probation, prove(NOON + DAY))
  const table: [string, Snapshot, CommunityToolMachineEvent, string | null, string][] = [
    ['a proof opens it', start, prove(), null, 'probation'],
    ['calls do not', start, measure([50, 50, 9]), null, 'pending'],
    ['a pending tool is not submitted', start, by('SUBMIT'), 'tool_not_active', 'pending'],
    ['nine calls are too few', probation, measure([9, 9, 9]), null, 'probation'],
    ['two payers are too few', probation, measure([10, 10, 2]), null, 'probation'],
    ['80 % is too little', probation, measure([10, 8, 3]), null, 'probation'],
    ['90 % of ten calls of three list it', probation, measure([10, 9, 3]), null, 'listed'],
    ['49 calls do not suspend', listed, measure([49, 0, 3]), null, 'listed'],
    ['half of 50 do not', listed, measure([50, 25, 3]), null, 'listed'],
    ['below half they do', listed, measure([50, 24, 3]), null, 'suspended'],
    ['on probation too', probation, measure([50, 24, 3]), null, 'suspended'],
    ['calls of another endpoint do not count', later, measure([50, 0, 3]), null, 'probation'],
    ['good calls do not end a suspension', suspended, measure([99, 99, 9]), null, 'suspended'],
    ['a new proof does', suspended, prove(), null, 'probation'],
    ['a new endpoint starts over', listed, prove(), null, 'probation'],
    ['the operator lists it', after(probation, by('SUBMIT')), review(true), null, 'listed'],
    ['a refusal leaves it', probation, review(false), null, 'probation'],
    [
      'a verified tool is not submitted again',
      verified,
      by('SUBMIT'),
      'tool_already_verified',
      'listed',
    ],
    [
      'another agent does not change it',
      listed,
      change(1, NOON, OTHER),
      'tool_not_yours',
      'listed',
    ],
    ['nor its secret', listed, by('ROTATE_SECRET', OTHER), 'tool_not_yours', 'listed'],
    ['nor submit it', listed, by('SUBMIT', OTHER), 'tool_not_yours', 'listed'],
    ['nor retire it', listed, by('RETIRE', OTHER), 'tool_not_yours', 'listed'],
    ['its builder retires it', listed, by('RETIRE'), null, 'retired'],
    ['one payer suspends no tool', listed, measure([50, 0, 2]), null, 'listed'],
    ['twice changes nothing', retired, by('RETIRE'), null, 'retired'],
    ['another agent does not either', retired, by('RETIRE', OTHER), 'tool_not_yours', 'retired'],
    ['a retired tool stays', retired, prove(), 'tool_retired', 'retired'],
    ['it is not changed', retired, change(1), 'tool_retired', 'retired'],
    ['nor judged', retired, measure([50, 0, 3]), null, 'retired'],
    ['nor reviewed', retired, review(true), 'tool_retired', 'retired'],
    ['an unknown event', start, { type: 'NO_SUCH_EVENT' } as never, 'internal', 'pending'],
  ]
  for (const [says, from, event, refused, value] of table) {
    const outcome = stepStateMachine(communityToolMachine, from, event)
    t.equal(outcome.refused, refused, says)
    t.equal(outcome.snapshot.value, value, says)
  }
  t.match(suspended.context, { suspendedFor: { calls: 50, successes: 24 } })
  t.equal(after(probation, review(false)).context.reviewReason, 'The description is wrong.')
  t.equal(after(verified, change(null)).context.review, 'verified')
  const revised = after(verified, { ...change(null), revised: true } as CommunityToolMachineEvent)
  t.equal(revised.context.review, 'none', 'the mark is of what the operator has seen')
  t.equal(after(listed, by('ROTATE_SECRET')).context.secretNumber, 2)
})

t.test('a lower price applies at once, a higher one after its notice', async (t) => {
  const open = after(start, prove())
  const cheaper = after(open, change(5_000))
  t.equal(communityToolPriceAt(cheaper.context, NOON), 5_000n)
  const dearer = after(open, change(20_000))
  t.equal(communityToolPriceAt(dearer.context, NOON + DAY - 1), 10_000n)
  t.equal(communityToolPriceAt(dearer.context, NOON + DAY), 20_000n)
  const again = after(dearer, change(30_000, NOON + 1))
  t.equal(communityToolPriceAt(again.context, NOON + DAY), 10_000n, 'a new notice replaces it')
  t.equal(communityToolPriceAt(again.context, NOON + DAY + 1), 30_000n)
  const back = after(dearer, change(10_000, NOON + 1))
  t.equal(back.context.nextPrice, null, 'the present price withdraws it')
  const due = after(dearer, change(null, NOON + 2 * DAY))
  t.match(due.context, { price: 20_000n, nextPrice: null }, 'a due price is the price')
  const held = after(dearer, change(null, NOON + DAY + 1))
  t.equal(communityToolPriceAt(held.context, NOON + DAY - 1), 10_000n, 'a quote still holds')
  const fallen = after(dearer, change(15_000, NOON + 2 * DAY))
  t.match(
    fallen.context,
    { price: 15_000n, nextPrice: null },
    'compared with the price of the time',
  )
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  const answers = { probation: null, retired: 'tool_retired' }
  for (const stored of readGoldenSnapshots('tool-v1.json')) {
    const snapshot = restoreSnapshot(communityToolMachine, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    const { name } = stored as { name: keyof typeof answers }
    const changed = stepStateMachine(
      communityToolMachine,
      snapshot,
      change(1, NOON, snapshot.context.builderId),
    )
    t.equal(changed.refused, answers[name])
  }
})
