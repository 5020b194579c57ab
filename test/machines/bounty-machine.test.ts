import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { HOUR } from '../../core/clock.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { bountyMachine, type BountyMachineEvent } from '../../machines/bounty-machine.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  shortestEventPaths,
  restoreSnapshot,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = SnapshotFrom<typeof bountyMachine>
const NOON = Date.UTC(2026, 10, 21, 12)
const END = NOON + HOUR
const [POSTER, OTHER, THIRD] = ['poster', 'other', 'third']

const begun = stepMachineToInitialState(bountyMachine, {
  bountyId: 'b',
  posterId: POSTER,
  promo: microUsd(30_000),
  cash: microUsd(70_000),
  minQuality: 50,
  at: NOON,
  expiresAt: END,
})
const start = begun.snapshot
const claim = (agentId: string, at = NOON, quality = 50, missing = 0): BountyMachineEvent => ({
  type: 'CLAIM',
  agentId,
  quality,
  missing,
  at,
})
const cancel = (agentId = POSTER, at = NOON): BountyMachineEvent => ({
  type: 'CANCEL',
  agentId,
  at,
})
const expire = (at = END): BountyMachineEvent => ({ type: 'EXPIRE', at })
const after = (...events: BountyMachineEvent[]): Snapshot =>
  events.reduce((from, event) => stepStateMachine(bountyMachine, from, event).snapshot, start)
const refusal = (from: Snapshot, event: BountyMachineEvent) =>
  stepStateMachine(bountyMachine, from, event).refused

t.test('a bounty starts open, with its reward in two parts', async (t) => {
  t.match(start, { value: 'open', context: { promo: 30_000n, cash: 70_000n, claimerId: null } })
  t.strictSame(begun.timers, {}, 'its timer is a command of its own: money moves with it')
})

t.test('results of all events in each state', async (t) => {
  const claimed = after(claim(OTHER))
  const cancelled = after(cancel())
  const expired = after(expire())
  const table: [string, Snapshot, BountyMachineEvent, string | null, string][] = [
    ['a match is paid', start, claim(OTHER), null, 'claimed'],
    ['until the last instant', start, claim(OTHER, END - 1), null, 'claimed'],
    ['not after it, however late the timer', start, claim(OTHER, END), 'bounty_ended', 'open'],
    ['a keyword short', start, claim(OTHER, NOON, 100, 1), 'bounty_mismatch', 'open'],
    ['a point short', start, claim(OTHER, NOON, 49), 'bounty_mismatch', 'open'],
    ["one's own", start, claim(POSTER), 'own_bounty', 'open'],
    ["one's own, claimed", claimed, claim(POSTER), 'own_bounty', 'claimed'],
    ["one's own, ended", expired, claim(POSTER), 'own_bounty', 'expired'],
    ['a second claim', claimed, claim(THIRD), 'already_claimed', 'claimed'],
    ['a second claim of the same', claimed, claim(OTHER), 'already_claimed', 'claimed'],
    ['a claim after the end', expired, claim(OTHER), 'bounty_ended', 'expired'],
    ['a claim after it was taken back', cancelled, claim(OTHER), 'bounty_ended', 'expired'],
    ['its poster takes it back', start, cancel(), null, 'expired'],
    ['also while the timer is late', start, cancel(POSTER, END), null, 'expired'],
    ['another agent does not', start, cancel(OTHER), 'bounty_not_yours', 'open'],
    ['another agent does not later either', claimed, cancel(OTHER), 'bounty_not_yours', 'claimed'],
    ['nothing to take back', claimed, cancel(), 'already_claimed', 'claimed'],
    ['taken back twice: it stays as it is', cancelled, cancel(), null, 'expired'],
    ['nothing to take back after its end', expired, cancel(), 'bounty_ended', 'expired'],
    [
      'another agent does not cancel it again',
      cancelled,
      cancel(OTHER),
      'bounty_not_yours',
      'expired',
    ],
    ['the alarm', start, expire(), null, 'expired'],
    ['an early alarm', start, expire(END - 1), null, 'open'],
    ['a late alarm', claimed, expire(), null, 'claimed'],
    ['a second alarm', cancelled, expire(), null, 'expired'],
    ['an unknown event', start, { type: 'NO_SUCH_EVENT' } as never, 'internal', 'open'],
  ]
  for (const [says, from, event, refused, value] of table) {
    const outcome = stepStateMachine(bountyMachine, from, event)
    t.equal(outcome.refused, refused, says)
    t.equal(outcome.snapshot.value, value, says)
  }
  t.match(claimed.context, { claimerId: OTHER, quality: 50, closedReason: 'claimed' })
  t.match(cancelled.context, { claimerId: null, closedAt: NOON, closedReason: 'cancelled' })
  t.match(expired.context, { claimerId: null, closedAt: END, closedReason: 'expired' })
})

t.test('on all paths it ends at most once, and its parts never change', async (t) => {
  const events = [NOON, END].flatMap((at) => [
    ...[POSTER, OTHER, THIRD].flatMap((one) => [claim(one, at), cancel(one, at)]),
    claim(OTHER, at, 0, 1),
    expire(at),
  ])
  const walks = shortestEventPaths(
    bountyMachine,
    start,
    events,
    ({ value, context }) => stringifyWithBigints([value, context]),
    20_000,
  )
  t.ok(walks.length > 5, `${walks.length} paths`)
  for (const walk of walks) {
    let [from, ends] = [start, 0]
    for (const event of [...walk, ...events]) {
      const { snapshot } = stepStateMachine(bountyMachine, from, event)
      if (snapshot.value !== from.value) ends += 1
      const { promo, cash } = snapshot.context
      if (promo !== 30_000n || cash !== 70_000n) t.fail('a part has changed', { walk })
      from = snapshot
    }
    t.equal(ends, 1)
  }
})

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  const answers = { open: null, claimed: 'already_claimed', cancelled: 'bounty_ended' }
  for (const stored of readGoldenSnapshots('bounty-v1.json')) {
    const snapshot = restoreSnapshot(bountyMachine, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    const { name } = stored as { name: keyof typeof answers }
    t.equal(refusal(snapshot, claim(THIRD)), answers[name], name)
  }
})
