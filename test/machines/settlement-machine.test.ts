import fc from 'fast-check'
import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { isArchivedActor as isActorArchived } from '../../actors/machine-registry.ts'
import { stringifyWithBigints } from '../../core/json/bigint.ts'
import { settlementMachine } from '../../machines/settlement-machine.ts'
import type {
  SettlementMachineEvent,
  SettlementMachineInput,
} from '../../machines/settlement/settlement-guards-and-actions.ts'
import {
  stepMachineToInitialState,
  readGoldenSnapshots,
  shortestEventPaths,
  stepMachineThroughEvents,
  restoreSnapshot,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = SnapshotFrom<typeof settlementMachine>
const NOON = Date.UTC(2026, 10, 21, 12)

const facts = {
  amount: 30_000n,
  price: microUsd(30_000),
  validBefore: NOON / 1000 + 300,
  mode: 'optimistic' as SettlementMachineInput['mode'],
  purpose: { kind: 'call' } as SettlementMachineInput['purpose'],
  agentId: null as string | null,
  callId: 'c1',
  fingerprint: 'f1',
  credential: 'k1',
  marks: null as SettlementMachineInput['marks'],
  expiresAt: NOON + 1_000,
  at: NOON,
}
const input = {
  ...facts,
  settlementId: 'stl_1',
  chain: 'base' as const,
  asset: '0xusdc',
  payer: 'eip155:8453:0xabc',
}
const start = (more: Partial<SettlementMachineInput> = {}): Snapshot =>
  stepMachineToInitialState(settlementMachine, { ...input, ...more }).snapshot
const agents = { agentId: 'a1' }
const first = { mode: 'first' as const }

const claim = (more: object = {}) => ({ type: 'CLAIM' as const, ...facts, ...more })
const deliver = (callId = 'c1') => ({ type: 'DELIVER', callId }) as const
const release = (callId = 'c1') => ({ type: 'RELEASE', callId }) as const
const expire = (callId = 'c1') => ({ type: 'EXPIRE', callId }) as const
const submitted = { type: 'SUBMITTED', txHash: '0x01' } as const
const unknown = { type: 'UNKNOWN' } as const
const retry = { type: 'RETRY', failed: false } as const
const settled = { type: 'SETTLED', txHash: '0x02', at: NOON + 5 } as const
const lost = { type: 'LOST', lookAt: null } as const
const undone = { type: 'UNDONE' } as const
const lostFor = { type: 'LOST', lookAt: NOON + 9 } as const

const at = ({ value }: Snapshot) => `${value.money}/${value.delivery}`
const after = (from: Snapshot, ...events: SettlementMachineEvent[]) =>
  stepMachineThroughEvents(settlementMachine, from, events).snapshot
const refusal = (snapshot: Snapshot, event: SettlementMachineEvent) =>
  stepStateMachine(settlementMachine, snapshot, event).refused
const isArchived = (snapshot: Snapshot) => isActorArchived('settlement', snapshot)

t.test('every transition of the payment state', async (t) => {
  const claimed = start()
  t.equal(at(claimed), 'claimed/waiting')
  t.strictSame(claimed.context.runner, { callId: 'c1', until: NOON + 1_000 })
  t.equal(at(after(claimed, deliver())), 'due/delivered')
  t.equal(at(after(claimed, release())), 'released/waiting')
  t.equal(at(after(claimed, expire())), 'released/waiting')
  t.equal(at(start(first)), 'due/waiting', 'settle first: at once')

  const due = after(claimed, deliver())
  t.equal(at(after(due, submitted)), 'submitted/delivered')
  t.match(after(due, submitted).context, { txHash: '0x01', attempts: 0 })
  t.equal(at(after(due, submitted, settled)), 'settled/delivered')
  t.equal(at(after(due, submitted, unknown)), 'unknown/delivered')
  t.equal(at(after(due, unknown)), 'unknown/delivered', 'a simulation fails')
  t.equal(at(after(due, settled)), 'settled/delivered', 'a third party was faster')

  const lostTrack = after(due, submitted, unknown)
  t.equal(at(after(lostTrack, settled)), 'settled/delivered')
  t.match(after(lostTrack, settled).context, { txHash: '0x02', settledAt: NOON + 5 })
  t.equal(at(after(lostTrack, submitted)), 'submitted/delivered')
  t.equal(after(lostTrack, retry).context.attempts, 0, 'nothing has failed')
  const failed = after(lostTrack, { ...retry, failed: true }, submitted, unknown)
  t.equal(failed.context.attempts, 1, 'a block had it and did not pay')
  t.equal(after(failed, { ...retry, failed: true }).context.attempts, 2)
  t.equal(at(after(lostTrack, retry)), 'due/delivered')
  t.equal(at(after(lostTrack, lost)), 'lost/delivered')
  t.equal(at(after(lostTrack, lost, settled)), 'settled/delivered', 'it landed after all')
})

t.test('a withheld answer is delivered by its settlement alone', async (t) => {
  const claimed = start({ mode: 'withheld' })
  t.equal(at(claimed), 'claimed/waiting', 'the call runs first')
  t.equal(at(after(claimed, expire())), 'released/waiting')
  t.equal(at(after(claimed, release())), 'released/waiting')
  const due = after(claimed, deliver())
  t.equal(at(due), 'due/withheld')
  t.equal(refusal(due, release()), 'call_settled')
  t.equal(refusal(due, deliver()), 'call_settled')
  t.equal(refusal(due, claim({ callId: 'c2' })), 'settlement_unknown')
  t.equal(at(after(due, submitted, settled)), 'settled/delivered')
  const gone = after(due, submitted, unknown, lost)
  t.equal(at(gone), 'lost/withheld')
  t.equal(refusal(gone, claim({ callId: 'c2' })), 'payment_invalid', 'not for another answer')
  t.equal(at(after(gone, settled)), 'settled/delivered', 'it arrived after all')
  t.equal(at(after(due, submitted, settled, undone)), 'unknown/delivered', 'a reorganisation')
})

t.test('nothing is sent before it is due, and a final state stays final', async (t) => {
  for (const event of [submitted, unknown, retry, settled, lost, undone]) {
    t.equal(at(after(start(), event)), 'claimed/waiting', event.type)
    t.equal(at(after(start(), release(), event)), 'released/waiting', event.type)
    if (event === undone) continue
    const over = after(start(), deliver(), submitted, settled)
    t.equal(
      stepStateMachine(settlementMachine, over, event).snapshot.context,
      over.context,
      event.type,
    )
  }
  t.equal(refusal(start(), { type: 'NO_SUCH_EVENT' } as never), 'internal')
})

t.test('only the running call may deliver or release', async (t) => {
  t.equal(refusal(start(), deliver('c2')), 'call_settled')
  t.equal(refusal(start(), release('c2')), 'call_settled')
  t.equal(at(after(start(), expire('c2'))), 'claimed/waiting')
  const done = after(start(), deliver())
  t.equal(refusal(done, deliver()), 'call_settled')
  t.equal(refusal(done, release()), 'call_settled')
  t.equal(
    refusal(after(start(), expire()), deliver()),
    'call_settled',
    'a later result is discarded',
  )
})

/** [how it got there, the answer to the same request, the answer to another one]. */
const repetitions: [string, Snapshot, string | null, string | null][] = [
  ['claimed/waiting', start(), 'payment_in_progress', 'payment_already_used'],
  ['due/delivered', after(start(), deliver()), null, 'payment_already_used'],
  ['submitted/delivered', after(start(), deliver(), submitted), null, 'payment_already_used'],
  ['unknown/delivered', after(start(), deliver(), unknown), null, 'payment_already_used'],
  ['settled/delivered', after(start(), deliver(), settled), null, 'payment_already_used'],
  ['due/waiting', start(first), 'settlement_unknown', 'payment_already_used'],
  [
    'submitted/waiting',
    after(start(first), submitted),
    'settlement_unknown',
    'payment_already_used',
  ],
  ['unknown/waiting', after(start(first), unknown), 'settlement_unknown', 'payment_already_used'],
  ['lost/waiting', after(start(first), unknown, lost), 'payment_invalid', 'payment_invalid'],
  ['lost/delivered', after(start(), deliver(), unknown, lost), null, 'payment_already_used'],
  ['settled/waiting', after(start(first), settled), 'payment_in_progress', 'payment_already_used'],
  [
    'settled/failed',
    after(start({ ...first, ...agents }), settled, release()),
    'payment_credited',
    'payment_already_used',
  ],
]
for (const [where, from, same, other] of repetitions) {
  t.test(`a payment presented again at ${where}`, async (t) => {
    t.equal(at(from), where)
    const { agentId } = from.context
    t.equal(refusal(from, claim({ agentId, callId: 'c2' })), same)
    t.equal(refusal(from, claim({ agentId, callId: 'c2', fingerprint: 'f2' })), other, 'request')
    t.equal(refusal(from, claim({ agentId, callId: 'c2', credential: 'k2' })), other, 'credential')
    t.equal(refusal(from, claim({ agentId: 'a2', callId: 'c2' })), other, 'somebody else')
    if (same === null) {
      const { snapshot } = stepStateMachine(
        settlementMachine,
        from,
        claim({ agentId, callId: 'c2' }),
      )
      t.equal(snapshot.context, from.context, 'the first answer is repeated')
    }
  })
}

t.test('a released payment may be used again for any purpose', async (t) => {
  const free = after(start(), release())
  t.ok(isArchived(free))
  const again = stepStateMachine(
    settlementMachine,
    free,
    claim({ callId: 'c2', fingerprint: 'f2', credential: 'k2' }),
  )
  t.equal(again.refused, null)
  t.equal(at(again.snapshot), 'claimed/waiting')
  t.match(again.snapshot.context, { callId: 'c2', fingerprint: 'f2', claims: 2 })
  t.equal(at(after(free, claim(first))), 'due/waiting')
})

t.test('a settled, undelivered payment runs again, one call at a time', async (t) => {
  const paid = after(start(first), submitted, settled)
  t.notOk(isArchived(paid))
  t.equal(refusal(paid, claim({ callId: 'c2' })), 'payment_in_progress')
  const failed = after(paid, release())
  t.equal(at(failed), 'settled/waiting')
  const rerun = after(failed, claim({ callId: 'c2', expiresAt: NOON + 50 }))
  t.strictSame(rerun.context.runner, { callId: 'c2', until: NOON + 50 })
  t.equal(refusal(rerun, claim({ callId: 'c3' })), 'payment_in_progress')
  const dead = claim({ callId: 'c3', at: NOON + 50, expiresAt: NOON + 99 })
  t.equal(after(rerun, dead).context.runner?.callId, 'c3', 'its runner is believed dead')
  t.equal(refusal(after(rerun, dead), deliver('c2')), 'call_settled')
  t.ok(isArchived(after(rerun, deliver('c2'))))
})

t.test('a failed call of an agent is credited once the payment has settled', async (t) => {
  const keyed = start({ ...first, ...agents })
  for (const way of [
    [release(), settled],
    [settled, release()],
  ]) {
    const over = after(keyed, ...way)
    t.equal(at(over), 'settled/failed')
    t.ok(isArchived(over))
  }
  t.equal(at(after(keyed, unknown, lost, release())), 'lost/failed')
  t.equal(at(after(start(agents), release())), 'released/waiting', 'nothing was sent')
})

t.test('the hold of an agent decides the outcome of its call', async (t) => {
  const expired = after(start(agents), expire())
  t.equal(at(expired), 'released/waiting')
  t.notOk(isArchived(expired), 'a delivery may still arrive')
  t.equal(refusal(expired, claim({ ...agents, callId: 'c2' })), 'payment_in_progress')
  t.equal(at(after(expired, deliver())), 'lost/delivered')
  t.ok(isArchived(after(expired, release())))
})

t.test('a top-up is delivered by its settlement', async (t) => {
  const topup = start({ ...first, purpose: { kind: 'topup', agentId: 'a1' } })
  t.equal(at(after(topup, submitted, settled)), 'settled/delivered')
  t.ok(isArchived(after(topup, settled)))
})

t.test('a lost payment that may still land is checked once more', async (t) => {
  const given = after(start(first), unknown, lostFor)
  t.notOk(isArchived(given))
  t.ok(isArchived(after(given, lost)))
  t.equal(at(after(given, settled)), 'settled/waiting')
})

t.test('a reverted payment is open again and settles again', async (t) => {
  const paid = after(start(), deliver(), submitted, settled)
  const open = after(paid, undone)
  t.equal(at(open), 'unknown/delivered')
  t.match(open.context, { undone: 1, settledAt: null, credited: false })
  t.notOk(isArchived(open))
  t.equal(refusal(open, claim({ callId: 'c2' })), null, 'the answer is repeated all the while')
  t.equal(at(after(open, retry, submitted, settled)), 'settled/delivered')
  t.equal(at(after(open, lost)), 'lost/delivered')
  t.equal(after(open, undone).context, open.context, 'once')

  const waiting = after(start(first), settled, undone)
  t.equal(at(waiting), 'unknown/waiting')
  t.equal(refusal(waiting, claim({ callId: 'c2' })), 'settlement_unknown')
})

t.test('credits of a reverted payment remain until it settles again or is lost', async (t) => {
  const topup = start({ ...first, purpose: { kind: 'topup', agentId: 'a1' } })
  const failed = after(start({ ...first, ...agents }), settled, release())
  for (const given of [after(topup, settled), failed]) {
    const open = after(given, undone)
    t.match(open.context, { credited: true, undone: 1 })
    t.equal(after(open, settled).context.credited, false)
    t.equal(after(open, lost).context.credited, false)
    t.match(after(open, settled, undone).context, { credited: true, undone: 2 })
  }
  const early = after(start({ ...first, ...agents }), settled, undone, release())
  t.equal(at(early), 'unknown/failed')
  t.equal(early.context.credited, false, 'it failed while nothing was there to credit')
})

const alphabet = (more: object): SettlementMachineEvent[] => [
  claim({ ...more, callId: 'c1' }),
  claim({ ...more, callId: 'c2', at: NOON + 2_000, expiresAt: NOON + 3_000 }),
  claim({ ...more, callId: 'c2', fingerprint: 'f2', mode: 'first' }),
  deliver(),
  deliver('c2'),
  release(),
  release('c2'),
  expire(),
  submitted,
  unknown,
  retry,
  settled,
  undone,
  lost,
  lostFor,
]

/** Taken the way the runtime takes them: a refused event changes nothing. */
function walked(from: Snapshot, events: readonly SettlementMachineEvent[]): Snapshot[] {
  const seen = [from]
  for (const event of events) {
    const taken = stepStateMachine(settlementMachine, seen.at(-1) as Snapshot, event)
    if (taken.refused === null) seen.push(taken.snapshot)
  }
  return seen
}

function breach(seen: readonly Snapshot[]): string | null {
  const once = (test: (snapshot: Snapshot) => boolean, name: string) => {
    const begun = seen.findIndex(test)
    return begun === -1 || seen.slice(begun).every(test) ? null : name
  }
  const last = seen.at(-1) as Snapshot
  const { money, delivery } = last.value
  if ((money === 'settled') !== (last.context.settledAt !== null)) return 'settled by half'
  const { credited } = last.context
  if (credited && (money === 'settled' || money === 'lost')) return 'credits of what is over'
  if (credited && delivery === 'waiting') return 'credits before there were any'
  if (money === 'claimed' && delivery !== 'waiting') return 'claimed and delivered'
  if (money === 'released' && delivery !== 'waiting') return 'released and delivered'
  return (
    once(
      ({ value, context }) => value.money === 'settled' && context.undone === last.context.undone,
      'it settled and then did not, and no chain has undone it',
    ) ??
    once(({ value }) => value.delivery === 'delivered', 'it was delivered and then was not') ??
    once(({ value }) => value.delivery === 'failed', 'it failed and then did not')
  )
}

for (const more of [{}, agents, first, { ...first, ...agents }]) {
  t.test(`no path changes a final state: ${JSON.stringify(more)}`, async (t) => {
    const bucket = (snapshot: Snapshot) => {
      const { runner, lookAt, mode, fingerprint } = snapshot.context
      return stringifyWithBigints([snapshot.value, runner?.callId, lookAt, mode, fingerprint])
    }
    const walks = shortestEventPaths(settlementMachine, start(more), alphabet(more), bucket, 20_000)
    t.ok(walks.length > 10, `${walks.length} paths`)
    for (const walk of walks) t.equal(breach(walked(start(more), walk)), null)
    const events = fc.array(fc.constantFrom(...alphabet(more)), { maxLength: 30 })
    const property = fc.property(events, (walk) => breach(walked(start(more), walk)) === null)
    fc.assert(property, { numRuns: 200, verbose: 1 })
  })
}

t.test('snapshots of version 1 still resolve and accept events', async (t) => {
  for (const stored of readGoldenSnapshots('settlement-v1.json')) {
    const snapshot = restoreSnapshot(settlementMachine, stored)
    t.strictSame(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    const other = claim({ fingerprint: 'other', callId: 'c9' })
    const free = snapshot.value.money === 'released'
    t.equal(refusal(snapshot, other), free ? null : 'payment_already_used')
  }
})

t.test('without an agent, a repetition is identified by data of its sender', async (t) => {
  const [no, yes] = ['payment_already_used', null]
  const marks = (key: string | null, secrets: string[], address: string | null) => ({
    marks: { key, secrets, address },
  })
  const cases: [string, object, object, string | null][] = [
    ['its address', marks(null, [], 'home'), marks(null, [], 'home'), yes],
    ['another address', marks(null, [], 'home'), marks(null, [], 'away'), no],
    ['nothing at all', marks(null, [], null), marks(null, [], null), no],
    ['a secret from elsewhere', marks(null, ['s'], 'home'), marks(null, ['r', 's'], 'away'), yes],
    ['another secret', marks(null, ['s'], 'home'), marks(null, ['r'], 'away'), no],
    ['no secret, at home', marks(null, ['s'], 'home'), marks(null, [], 'home'), yes],
    ['its key', marks('k', [], 'home'), marks('k', [], 'home'), yes],
    ['another key, at home', marks('k', ['s'], 'home'), marks('l', ['s'], 'home'), no],
    ['no key any more', marks('k', ['s'], 'home'), marks(null, ['s'], 'home'), no],
    ['a key that was not there', marks(null, [], 'home'), marks('k', [], 'home'), yes],
    ['a key anybody may guess', marks('k', [], 'home'), marks('k', [], 'away'), no],
    ['older than marks', { marks: null }, marks(null, [], 'away'), yes],
  ]
  for (const [name, one, again, refused] of cases) {
    const bought = after(start(one), deliver(), submitted, settled)
    t.equal(refusal(bought, claim({ callId: 'c2', ...again })), refused, name)
  }
  const hers = after(start({ ...agents, ...marks('k', ['s'], 'home') }), deliver(), submitted)
  const elsewhere = claim({ ...agents, callId: 'c2', ...marks(null, [], 'away') })
  t.equal(refusal(hers, elsewhere), yes, 'an agent is known by itself')
})
