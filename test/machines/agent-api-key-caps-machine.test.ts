import fc from 'fast-check'
import t from 'tap'
import type { SnapshotFrom } from 'xstate'
import { DAY } from '../../core/clock.ts'
import { ZERO_MICROS } from '../../core/money.ts'
import { agentMachine } from '../../machines/agent-machine.ts'
import type { AgentMachineEvent } from '../../machines/agent/agent-machine-events.ts'
import {
  stepMachineToInitialState,
  stepMachineThroughEvents,
  stepStateMachine,
  microUsd,
} from '../support/machines/state-machine-stepper.ts'

type Snapshot = SnapshotFrom<typeof agentMachine>
const NOON = Date.UTC(2026, 10, 21, 12)
const MIDNIGHT = Date.UTC(2026, 10, 22)
const MONTH_END = Date.UTC(2026, 10, 30, 23, 59)
const DECEMBER = Date.UTC(2026, 11, 1)

interface Caps {
  readonly total?: number
  readonly day?: number
  readonly month?: number
}
const limits = ({ total, day, month }: Caps, keyId = 'key-1') => ({
  keyId,
  keyCap: total === undefined ? null : microUsd(total),
  keyCapPerDay: day === undefined ? null : microUsd(day),
  keyCapPerMonth: month === undefined ? null : microUsd(month),
})
const open = (cash = 1_000_000): Snapshot =>
  stepMachineToInitialState(agentMachine, {
    agentId: 'agent-1',
    promo: ZERO_MICROS,
    cash: microUsd(cash),
  }).snapshot
const ask = (
  amount: number,
  caps: Caps,
  at = NOON,
  soft: { day?: number; month?: number } = {},
): AgentMachineEvent => ({
  type: 'ASK',
  amount: microUsd(amount),
  reserved: ZERO_MICROS,
  ...limits(caps),
  keyReserved: ZERO_MICROS,
  keyReservedDay: microUsd(soft.day ?? 0),
  keyReservedMonth: microUsd(soft.month ?? soft.day ?? 0),
  at,
})
const hold = (callId: string, amount: number, caps: Caps, at = NOON): AgentMachineEvent => ({
  ...(ask(amount, caps, at) as Extract<AgentMachineEvent, { type: 'ASK' }>),
  type: 'HOLD',
  callId,
  taskId: null,
  backpackId: null,
  tool: 'web_search',
  idempotencyKey: null,
})
const charge = (amount: number, caps: Caps, at = NOON, heldAt = at): AgentMachineEvent => ({
  type: 'CHARGE',
  amount: microUsd(amount),
  ...limits(caps),
  heldAt,
  at,
})
const debit = (amount: number, caps: Caps, at = NOON): AgentMachineEvent => ({
  ...(ask(amount, caps, at) as Extract<AgentMachineEvent, { type: 'ASK' }>),
  type: 'DEBIT',
  from: 'cash',
})
const capture = (callId: string, amount: number, at = NOON): AgentMachineEvent => ({
  type: 'CAPTURE',
  callId,
  amount: microUsd(amount),
  at,
})
const refused = (snapshot: Snapshot, event: AgentMachineEvent) => {
  const outcome = stepStateMachine(agentMachine, snapshot, event)
  return outcome.refused === null ? null : [outcome.refused, outcome.limit]
}
const exceeds = (limit: string) => ['key_cap_exceeded', limit]

t.test('each cap of a key allows exactly its amount, and the error names it', async (t) => {
  const caps = { total: 100, day: 60, month: 80 }
  const spent = stepStateMachine(agentMachine, open(), charge(30, caps)).snapshot
  t.equal(refused(spent, ask(30, caps)), null)
  t.strictSame(refused(spent, ask(31, caps)), exceeds('per_day'))
  t.strictSame(refused(spent, ask(71, caps)), exceeds('total'))
  t.strictSame(refused(spent, ask(51, { month: 80 })), exceeds('per_month'))
  t.strictSame(refused(spent, charge(31, caps)), exceeds('per_day'), 'a charge asks again')
  t.strictSame(refused(spent, debit(31, caps)), exceeds('per_day'), 'and so does money sent away')
  t.equal(refused(spent, debit(30, caps)), null)
})

t.test('holds of other calls count, in memory and in the ledger', async (t) => {
  const caps = { day: 60, month: 70 }
  const held = stepMachineThroughEvents(agentMachine, open(), [
    charge(10, caps),
    hold('call-1', 20, caps),
  ]).snapshot
  t.equal(refused(held, ask(10, caps, NOON, { day: 20 })), null)
  t.strictSame(refused(held, ask(11, caps, NOON, { day: 20 })), exceeds('per_day'))
  t.strictSame(refused(held, ask(11, caps, NOON, { day: 0, month: 30 })), exceeds('per_month'))
  t.strictSame(refused(held, ask(60, caps)), exceeds('per_day'))
  const other = { ...ask(60, caps), keyId: 'key-2' } as AgentMachineEvent
  t.equal(refused(held, other), null, 'another key has windows of its own')
})

t.test('the day and the month of a key restart at UTC midnight', async (t) => {
  const caps = { day: 50, month: 80 }
  const full = stepStateMachine(agentMachine, open(), charge(50, caps)).snapshot
  t.strictSame(refused(full, ask(1, caps, MIDNIGHT - 1)), exceeds('per_day'))
  t.equal(refused(full, ask(30, caps, MIDNIGHT)), null)
  t.strictSame(refused(full, ask(31, caps, MIDNIGHT)), exceeds('per_month'))
  const month = stepStateMachine(agentMachine, full, charge(30, caps, MONTH_END)).snapshot
  t.strictSame(refused(month, ask(1, caps, MONTH_END)), exceeds('per_month'))
  t.equal(refused(month, ask(50, caps, DECEMBER)), null)
  t.match(month.context.keySpent, { 'key-1': 80n }, 'in all it goes on counting')
})

t.test('a clock that goes backwards reopens no window of a key', async (t) => {
  const caps = { day: 50 }
  const full = stepStateMachine(agentMachine, open(), charge(50, caps, MIDNIGHT)).snapshot
  t.strictSame(refused(full, ask(1, caps, NOON)), exceeds('per_day'))
})

t.test('a call counts in the window that admitted it', async (t) => {
  const caps = { day: 50, month: 90 }
  const late = stepMachineThroughEvents(agentMachine, open(), [
    hold('call-1', 40, caps, MIDNIGHT - 1),
    charge(10, caps, MIDNIGHT),
  ]).snapshot
  t.equal(refused(late, ask(40, caps, MIDNIGHT)), null, "yesterday's hold is not of today")
  t.strictSame(refused(late, ask(41, caps, MIDNIGHT)), exceeds('per_day'))
  const ended = stepStateMachine(agentMachine, late, capture('call-1', 40, MIDNIGHT)).snapshot
  t.match(ended.context.keyWindows, {
    'key-1': { day: '2026-11-22', spentDay: 10n, spentMonth: 50n },
  })
  const full = stepStateMachine(agentMachine, ended, charge(40, caps, MIDNIGHT)).snapshot
  t.equal(
    refused(full, charge(0, caps, MIDNIGHT)),
    null,
    'a free call is within every cap of its key',
  )
})

t.test('a capture within its hold is not checked against the caps', async (t) => {
  const caps = { day: 50 }
  const held = stepMachineThroughEvents(agentMachine, open(), [
    hold('call-1', 40, caps),
    charge(10, caps),
  ]).snapshot
  t.equal(refused(held, capture('call-1', 40)), null)
  const { context } = stepStateMachine(agentMachine, held, capture('call-1', 25)).snapshot
  t.match(context.keyWindows, { 'key-1': { spentDay: 35n, spentMonth: 35n } })
})

t.test('a key without caps is not counted', async (t) => {
  const { context } = stepMachineThroughEvents(agentMachine, open(), [
    charge(10, {}),
    debit(10, {}),
  ]).snapshot
  t.strictSame([context.keySpent, context.keyWindows], [{}, {}])
})

t.test('no sequence of events exceeds the caps of a key in their windows', async (t) => {
  const caps = { total: 400, day: 100, month: 250 }
  const moments = fc.constantFrom(NOON, NOON + DAY, NOON + 2 * DAY, NOON + 20 * DAY)
  const amount = fc.nat(120)
  const call = fc.constantFrom('call-1', 'call-2')
  const event = fc.oneof(
    fc.tuple(amount, moments).map(([wanted, at]) => charge(wanted, caps, at)),
    fc.tuple(amount, moments).map(([wanted, at]) => debit(wanted, caps, at)),
    fc.tuple(call, amount, moments).map(([id, wanted, at]) => hold(id, wanted, caps, at)),
    fc.tuple(call, amount, moments).map(([id, cost, at]) => capture(id, cost, at)),
  )
  const property = fc.property(fc.array(event, { maxLength: 40 }), (events) => {
    let snapshot = open()
    let now = 0
    for (const one of events) {
      now = Math.max(now, (one as { at: number }).at)
      snapshot = stepStateMachine(agentMachine, snapshot, {
        ...one,
        at: now,
        ...heldNow(one, now),
      } as never).snapshot
      const windows = snapshot.context.keyWindows['key-1']
      if ((snapshot.context.keySpent['key-1'] ?? 0n) > 400n) return false
      if (windows !== undefined && (windows.spentDay > 100n || windows.spentMonth > 250n))
        return false
    }
    return true
  })
  fc.assert(property, { numRuns: 500 })
  t.pass('within the caps')
})

const heldNow = (event: AgentMachineEvent, at: number) =>
  event.type === 'CHARGE' ? { heldAt: at } : {}
