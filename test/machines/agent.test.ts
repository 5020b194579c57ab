import fc from 'fast-check'
import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { parseWithBigints, stringifyWithBigints } from '../../core/bigint-json.ts'
import { minMicros, sumMicros, ZERO, type Micros } from '../../core/money.ts'
import { CRITICAL_BALANCE_MICROS, WARNING_BALANCE_MICROS } from '../../domain/pricing.ts'
import { agentMachine } from '../../machines/agent.ts'
import type { AgentEvent } from '../../machines/agent/agent-events.ts'
import type { AgentContext } from '../../machines/agent/agent-balance.ts'
import { machineRegistryEntry } from '../../actors/machine-registry.ts'
import {
  startMachine,
  readGoldenSnapshots,
  shortestEventPaths,
  playEvents,
  restoreSnapshot,
  stepMachine,
  microUsd,
} from '../support/machines/machine-harness.ts'

const NOON = Date.UTC(2026, 10, 21, 12)
type Wanted = Extract<AgentEvent, { type: 'ASK' }>
type Snapshot = SnapshotFrom<typeof agentMachine>

const open = (promo: number, cash: number): Snapshot =>
  startMachine(agentMachine, { agentId: 'agent-1', promo: microUsd(promo), cash: microUsd(cash) })
    .snapshot
const plain = { reserved: ZERO, keyId: null, keyCap: null, keyReserved: ZERO, at: NOON }
const ask = (amount: number, more: Partial<Wanted> = {}): AgentEvent => ({
  type: 'ASK',
  amount: microUsd(amount),
  ...plain,
  ...more,
})
const hold = (callId: string, amount: number, more: Partial<Wanted> = {}): AgentEvent => {
  const call = { taskId: 'task-1', backpackId: null, tool: 'web_search', idempotencyKey: null }
  return { type: 'HOLD', amount: microUsd(amount), ...plain, ...call, ...more, callId }
}
const charge = (amount: number, keyId: string | null = null, cap: number | null = null) =>
  ({
    type: 'CHARGE',
    amount: microUsd(amount),
    keyId,
    keyCap: cap === null ? null : microUsd(cap),
    heldAt: NOON,
    at: NOON,
  }) as const
const capture = (callId: string, amount: number) =>
  ({ type: 'CAPTURE', callId, amount: microUsd(amount), at: NOON }) as const
const release = (callId: string) => ({ type: 'RELEASE', callId }) as const
const credit = (promo: number, cash: number) =>
  ({ type: 'CREDIT', promo: microUsd(promo), cash: microUsd(cash) }) as const
const debit = (amount: number, from: 'cash' | 'any', reserved = 0) =>
  ({
    type: 'DEBIT',
    amount: microUsd(amount),
    ...plain,
    reserved: microUsd(reserved),
    from,
  }) as const
const refusal = (snapshot: Snapshot, event: AgentEvent) =>
  stepMachine(agentMachine, snapshot, event).refused
const total = ({ promo, cash, held }: AgentContext): Micros => sumMicros([promo, cash, held])

t.test('an agent opens in the tier of its balance and tells nothing', async (t) => {
  const tiers = [
    [0, 'empty'],
    [1, 'critical'],
    [Number(CRITICAL_BALANCE_MICROS), 'critical'],
    [Number(CRITICAL_BALANCE_MICROS) + 1, 'warning'],
    [Number(WARNING_BALANCE_MICROS), 'warning'],
    [Number(WARNING_BALANCE_MICROS) + 1, 'healthy'],
  ] as const
  for (const [cash, tier] of tiers) {
    const opened = startMachine(agentMachine, {
      agentId: 'agent-1',
      promo: ZERO,
      cash: microUsd(cash),
    })
    t.equal(opened.snapshot.value, tier)
    t.strictSame(opened.emitted, [])
  }
})

t.test('falling into a tier is told once, climbing is not told', async (t) => {
  const { snapshot, emitted } = stepMachine(agentMachine, open(0, 250_001), charge(1))
  t.strictSame(emitted, [
    { type: 'low_balance', tier: 'warning', from: 'healthy', balance: 250_000n },
  ])
  const lower = stepMachine(agentMachine, snapshot, charge(1))
  t.equal(lower.snapshot.value, 'warning')
  t.strictSame(lower.emitted, [], 'the same tier again')
  const critical = stepMachine(agentMachine, lower.snapshot, charge(200_000))
  t.match(critical.emitted, [{ tier: 'critical', balance: 49_999n }])
  const up = stepMachine(agentMachine, critical.snapshot, credit(0, 1_000_000))
  t.equal(up.snapshot.value, 'healthy')
  t.strictSame(up.emitted, [])
  const empty = stepMachine(agentMachine, up.snapshot, charge(1_049_999))
  t.strictSame(
    empty.emitted,
    [{ type: 'low_balance', tier: 'empty', from: 'healthy', balance: 0n }],
    'tiers passed are not told',
  )
})

t.test('every tier leads to every other as the balance moves', async (t) => {
  const balances = { empty: 0, critical: 1, warning: 100_000, healthy: 300_000 }
  const order = Object.keys(balances)
  for (const [from, has] of Object.entries(balances)) {
    for (const [to, gets] of Object.entries(balances)) {
      const change = gets >= has ? credit(0, gets - has) : charge(has - gets)
      const { snapshot, emitted } = stepMachine(agentMachine, open(0, has), change)
      t.equal(snapshot.value, to, `${from} to ${to}`)
      t.equal(
        emitted.length,
        order.indexOf(to) < order.indexOf(from) ? 1 : 0,
        `${from} to ${to} told`,
      )
    }
  }
})

t.test('held money still belongs to the balance that makes the tier', async (t) => {
  const { snapshot, emitted } = stepMachine(agentMachine, open(0, 300_000), hold('call-1', 300_000))
  t.equal(snapshot.value, 'healthy')
  t.strictSame(emitted, [])
})

t.test(
  'asking accepts up to what no other call holds in memory, and changes nothing',
  async (t) => {
    const start = open(30, 70)
    const exact = stepMachine(agentMachine, start, ask(60, { reserved: microUsd(40) }))
    t.equal(exact.refused, null)
    t.strictSame(exact.snapshot.context, start.context)
    t.equal(refusal(start, ask(61, { reserved: microUsd(40) })), 'payment_required')
    t.equal(refusal(start, hold('call-1', 61, { reserved: microUsd(40) })), 'payment_required')
  },
)

t.test('a free call is covered with nothing in the purse and with a key at its cap', async (t) => {
  const spent = stepMachine(agentMachine, open(0, 10), charge(10, 'key-1', 10)).snapshot
  const keyed = {
    keyId: 'key-1',
    keyCap: microUsd(5),
    reserved: microUsd(3),
    keyReserved: microUsd(3),
  }
  t.equal(refusal(spent, ask(0, keyed)), null)
  t.equal(refusal(spent, hold('call-1', 0, keyed)), null)
  t.equal(refusal(spent, charge(0, 'key-1', 5)), null)
})

t.test('the cap of a key counts what it spent, holds durably and holds in memory', async (t) => {
  const keyed = { keyId: 'key-1', keyCap: microUsd(100) }
  const { snapshot } = playEvents(agentMachine, open(0, 1_000), [
    charge(20, 'key-1', 100),
    hold('call-1', 30, keyed),
    hold('call-2', 500, { keyId: 'key-2', keyCap: null }),
  ])
  t.equal(
    refusal(snapshot, ask(10, { ...keyed, keyReserved: microUsd(40) })),
    null,
    'exactly the cap',
  )
  t.equal(refusal(snapshot, ask(11, { ...keyed, keyReserved: microUsd(40) })), 'key_cap_exceeded')
  t.equal(refusal(snapshot, hold('call-3', 51, keyed)), 'key_cap_exceeded')
  t.equal(refusal(snapshot, charge(50, 'key-1', 100)), null, 'a charge counts no memory')
  t.equal(refusal(snapshot, charge(51, 'key-1', 100)), 'key_cap_exceeded')
  t.equal(
    refusal(snapshot, ask(51, { keyId: 'key-1', keyCap: null })),
    null,
    'a cap that was lifted',
  )
  t.equal(
    refusal(snapshot, ask(2_000, keyed)),
    'key_cap_exceeded',
    'the cap is asked before the funds',
  )
})

t.test('only keys with a cap are counted', async (t) => {
  const { snapshot } = playEvents(agentMachine, open(0, 1_000), [
    charge(10, 'free-key', null),
    hold('call-1', 20, { keyId: 'free-key' }),
    capture('call-1', 20),
    hold('call-2', 30, { keyId: 'key-1', keyCap: microUsd(100) }),
    capture('call-2', 25),
    charge(5, 'key-1', 100),
    charge(5, null, null),
  ])
  t.strictSame(snapshot.context.keySpent, { 'key-1': 30n })
})

t.test('a charge takes promotional credits first and refuses one micro too much', async (t) => {
  const start = open(30, 70)
  t.match(stepMachine(agentMachine, start, charge(40)).snapshot.context, { promo: 0n, cash: 60n })
  t.match(stepMachine(agentMachine, start, charge(100)).snapshot, {
    value: 'empty',
    context: { promo: 0n, cash: 0n },
  })
  t.equal(refusal(start, charge(101)), 'payment_required')
})

t.test('a hold moves promo then cash aside and records the call', async (t) => {
  const { snapshot } = stepMachine(
    agentMachine,
    open(30, 70),
    hold('call-1', 40, { keyId: 'key-1', keyCap: microUsd(50) }),
  )
  t.match(snapshot.context, { promo: 0n, cash: 60n, held: 40n })
  t.strictSame(snapshot.context.holds['call-1'], {
    promo: 30n,
    cash: 10n,
    external: 0n,
    payment: null,
    loans: [],
    keyId: 'key-1',
    capped: true,
    taskId: 'task-1',
    backpackId: null,
    at: NOON,
    tool: 'web_search',
    idempotencyKey: null,
  })
})

t.test('a call cannot hold twice', async (t) => {
  const { snapshot } = stepMachine(agentMachine, open(30, 70), hold('call-1', 40))
  const again = stepMachine(agentMachine, snapshot, hold('call-1', 10))
  t.equal(again.refused, 'call_settled')
  t.strictSame(again.snapshot.context, snapshot.context)
})

t.test(
  'a capture spends the promo part first and gives the rest back where it came from',
  async (t) => {
    const { snapshot } = stepMachine(agentMachine, open(30, 70), hold('call-1', 40))
    const captured = (amount: number) =>
      stepMachine(agentMachine, snapshot, capture('call-1', amount)).snapshot.context
    t.match(captured(0), { promo: 30n, cash: 70n, held: 0n, holds: {} })
    t.match(captured(25), { promo: 5n, cash: 70n, held: 0n })
    t.match(captured(35), { promo: 0n, cash: 65n, held: 0n })
    t.match(captured(40), { promo: 0n, cash: 60n, held: 0n })
    t.strictSame(captured(40).holds, {})
  },
)

t.test('a call settles once and never above its hold', async (t) => {
  const { snapshot } = stepMachine(agentMachine, open(30, 70), hold('call-1', 40))
  t.equal(refusal(snapshot, capture('call-1', 41)), 'call_settled')
  t.equal(refusal(snapshot, capture('call-2', 1)), 'call_settled')
  t.equal(refusal(snapshot, release('call-2')), 'call_settled')
  const settled = stepMachine(agentMachine, snapshot, capture('call-1', 40)).snapshot
  t.equal(refusal(settled, capture('call-1', 40)), 'call_settled')
  t.equal(refusal(settled, release('call-1')), 'call_settled')
})

t.test('a release gives all back, beside the holds of other calls', async (t) => {
  const { snapshot } = playEvents(agentMachine, open(30, 70), [
    hold('call-1', 40),
    hold('call-2', 20),
    release('call-1'),
  ])
  t.match(snapshot.context, { promo: 30n, cash: 50n, held: 20n })
  t.strictSame(Object.keys(snapshot.context.holds), ['call-2'])
})

t.test('a transfer takes cash only, and calls in memory use promo before that cash', async (t) => {
  const start = open(30, 70)
  t.match(stepMachine(agentMachine, start, debit(70, 'cash')).snapshot.context, {
    promo: 30n,
    cash: 0n,
  })
  t.equal(refusal(start, debit(71, 'cash')), 'promo_not_transferable')
  t.equal(refusal(start, debit(100, 'cash')), 'promo_not_transferable')
  t.equal(refusal(start, debit(101, 'cash')), 'payment_required')
  t.equal(refusal(start, debit(70, 'cash', 30)), null, 'promo covers what is in memory')
  t.equal(refusal(start, debit(69, 'cash', 31)), null)
  t.equal(refusal(start, debit(70, 'cash', 31)), 'payment_required')
  t.equal(refusal(start, debit(71, 'cash', 29)), 'promo_not_transferable')
})

t.test('a debit from any credits takes promo first', async (t) => {
  const start = open(30, 70)
  t.match(stepMachine(agentMachine, start, debit(40, 'any')).snapshot.context, {
    promo: 0n,
    cash: 60n,
  })
  t.equal(refusal(start, debit(90, 'any', 10)), null)
  t.equal(refusal(start, debit(91, 'any', 10)), 'payment_required')
})

t.test('an unknown event is refused and changes nothing', async (t) => {
  const start = open(30, 70)
  const outcome = stepMachine(agentMachine, start, { type: 'NO_SUCH_EVENT' } as never)
  t.equal(outcome.refused, 'internal')
  t.strictSame(outcome.snapshot.context, start.context)
})

t.test('on all paths nothing is negative and held is the sum of the holds', async (t) => {
  const events = [
    credit(50_000, 0),
    credit(0, 60_000),
    hold('call-1', 50_000, { keyId: 'key-1', keyCap: microUsd(90_000) }),
    hold('call-2', 30_000),
    capture('call-1', 20_000),
    capture('call-2', 30_000),
    release('call-1'),
    release('call-2'),
    charge(40_000, 'key-1', 90_000),
    debit(60_000, 'cash'),
    debit(10_000, 'any', 20_000),
  ]
  const bucket = ({ value, context }: Snapshot) => {
    const { promo, cash, holds } = context
    const [free, own] = [minMicros(microUsd(200_000), promo), minMicros(microUsd(400_000), cash)]
    return `${String(value)} ${free / 50_000n} ${own / 60_000n} ${Object.keys(holds).toSorted().join()}`
  }
  const walks = shortestEventPaths(agentMachine, open(0, 300_000), events, bucket, 20_000)
  t.ok(walks.length > 30, `${walks.length} paths`)
  for (const walk of walks) {
    let snapshot = open(0, 300_000)
    for (const event of walk) snapshot = stepMachine(agentMachine, snapshot, event).snapshot
    const { promo, cash, held, holds } = snapshot.context
    if (promo < 0n || cash < 0n || held < 0n) t.fail('a negative amount', { walk })
    const parts = Object.values(holds).flatMap((one) => [one.promo, one.cash])
    if (sumMicros(parts) !== held) t.fail('held differs from the holds', { walk })
    if ((snapshot.context.keySpent['key-1'] ?? 0n) > 90_000n) t.fail('above the cap', { walk })
  }
})

const amount = fc.nat(120_000)
const call = fc.constantFrom('call-1', 'call-2', 'call-3')
const key = fc.constantFrom(null, 'key-1', 'key-2')
const anyEvent: fc.Arbitrary<AgentEvent> = fc.oneof(
  fc
    .tuple(amount, amount)
    .map(([wanted, reserved]) => ask(wanted, { reserved: microUsd(reserved) })),
  fc
    .tuple(call, amount, key, fc.option(amount))
    .map(([callId, wanted, keyId, cap]) =>
      hold(callId, wanted, { keyId, keyCap: cap === null ? null : microUsd(cap) }),
    ),
  fc.tuple(amount, key, fc.option(amount)).map(([cost, keyId, cap]) => charge(cost, keyId, cap)),
  fc.tuple(call, amount).map(([callId, cost]) => capture(callId, cost)),
  call.map(release),
  fc.tuple(amount, amount).map(([promo, cash]) => credit(promo, cash)),
  fc
    .tuple(amount, fc.constantFrom('cash' as const, 'any' as const), amount)
    .map(([wanted, from, reserved]) => debit(wanted, from, reserved)),
)

/** How much an accepted event changes promo + cash + held. */
function flow(event: AgentEvent): bigint {
  if (event.type === 'CREDIT') return event.promo + event.cash
  const leaves = event.type === 'CHARGE' || event.type === 'CAPTURE' || event.type === 'DEBIT'
  return leaves ? -event.amount : 0n
}

t.test('money only enters by credit and leaves by charge, capture and debit', async (t) => {
  const property = fc.property(fc.array(anyEvent, { maxLength: 40 }), (events) => {
    let snapshot = open(100_000, 100_000)
    for (const event of events) {
      const { snapshot: next, refused, emitted } = stepMachine(agentMachine, snapshot, event)
      const expected = total(snapshot.context) + (refused === null ? flow(event) : 0n)
      const { promo, cash, held } = next.context
      if (total(next.context) !== expected) return false
      if (refused !== null && (next.value !== snapshot.value || emitted.length > 0)) return false
      if (promo < 0n || cash < 0n || held < 0n) return false
      snapshot = next
    }
    return true
  })
  fc.assert(property, { numRuns: 300, verbose: 1 })
  t.pass('the sum was kept')
})

for (const version of [1, 2, 3, 4])
  t.test(`snapshots of version ${version} are lifted and go on`, async (t) => {
    const lift = machineRegistryEntry('agent').upcasters[version]
    const lifted = readGoldenSnapshots(`agent-v${version}.json`).map((one) => ({
      ...one,
      ...lift?.(one),
    }))
    const names = new Set(lifted.map(({ name }) => name))
    const next = readGoldenSnapshots(`agent-v${version + 1}.json`).filter(({ name }) =>
      names.has(name),
    )
    t.strictSame(lifted, next)
  })

t.test('what was drawn for a call of version 2 is lent for it by its fleet', async (t) => {
  const [drawn] = readGoldenSnapshots('agent-v5.json').filter(({ name }) =>
    name.includes('of version 2'),
  )
  const context = drawn?.context as AgentContext | undefined
  const loans = Object.values(context?.holds ?? {}).flatMap((hold) => hold.loans)
  t.strictSame(loans, [{ fleetId: context?.fleetId, promo: 0n, cash: 15_000n }])
})

t.test('snapshots of version 5 still resolve and go on', async (t) => {
  for (const stored of readGoldenSnapshots('agent-v5.json')) {
    const snapshot = restoreSnapshot(agentMachine, stored)
    t.equal(snapshot.value, stored.value, stored.name)
    t.equal(stringifyWithBigints(snapshot.context), stringifyWithBigints(stored.context))
    t.equal(stepMachine(agentMachine, snapshot, credit(0, 1_000_000)).snapshot.value, 'healthy')
    for (const callId of Object.keys(snapshot.context.holds)) {
      t.equal(refusal(snapshot, release(callId)), null, `${stored.name} releases ${callId}`)
    }
  }
})

t.test('a context survives the codec', async (t) => {
  const { snapshot } = stepMachine(agentMachine, open(30, 70), hold('call-1', 40))
  t.strictSame(
    parseWithBigints<AgentContext>(stringifyWithBigints(snapshot.context)),
    snapshot.context,
  )
})
