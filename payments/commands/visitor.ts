import { ServiceError } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/events.ts'
import { utcDay } from '../../core/clock.ts'
import { ZERO } from '../../core/money.ts'
import type { Command, Turn } from '../../actors/command.ts'
import type { CallRow } from '../../core/rows.ts'

/** One free call of a visitor (an address, or an IPv6 /64): per tool and UTC day (decision 20). */
export interface Slot {
  readonly callId: string
  readonly tool: string
  readonly limit: number
}

/** Holds a free slot in memory; refuses when the tool's slots of today are gone. */
export const slotTake: Command<Slot, void> = {
  name: 'slot.take',
  kind: 'visitor',
  creates: true,
  apply(turn, { callId, tool, limit }) {
    if (!turn.has('visitor', turn.aggregateId)) turn.create('visitor', turn.aggregateId, {})
    const reserved = reservedFor(turn, tool)
    turn.step('visitor', turn.aggregateId, { type: 'ASK', tool, limit, reserved, at: turn.now })
    turn.soft.take({
      callId,
      at: turn.now,
      amount: ZERO,
      tool,
      keyId: null,
      taskId: null,
      backpackId: null,
    })
  },
}

export interface SlotUse extends Slot {
  /** The call row and staged work of a caller without a key; a key's own aggregate keeps its. */
  readonly record: {
    readonly row: (at: number) => CallRow
    readonly rows: readonly { table: string; row: Record<string, unknown> }[]
    readonly events: readonly DomainEvent[]
  } | null
}

/** Uses up a held slot. */
export const slotUse: Command<SlotUse, { at: number }> = {
  name: 'slot.use',
  kind: 'visitor',
  apply(turn, { callId, tool, limit, record }) {
    const hold = turn.soft.get(callId)
    if (hold === undefined) throw new ServiceError('call_settled', { call_id: callId })
    turn.soft.drop(callId)
    turn.step('visitor', turn.aggregateId, { type: 'USE', tool, limit, at: turn.now })
    if (record !== null) {
      turn.call(record.row(hold.at))
      for (const staged of record.rows) turn.row(staged.table, staged.row)
      for (const event of record.events) turn.event(event)
    }
    return { at: hold.at }
  },
  note: ({ callId, tool }) => ({ callId, tool }),
}

/** Gives a slot back: the call failed, or cost nothing. Keeps the row of a caller without a key. */
export const slotFree: Command<
  { callId: string; tool: string; usedAt: number | null; row: CallRow | null },
  void
> = {
  name: 'slot.free',
  kind: 'visitor',
  creates: true,
  apply(turn, { callId, tool, usedAt, row }) {
    turn.soft.drop(callId)
    if (usedAt !== null) {
      turn.step('visitor', turn.aggregateId, { type: 'GIVE_BACK', tool, usedAt, at: turn.now })
    }
    if (row !== null) turn.call(row)
  },
  note: ({ callId, tool }) => ({ callId, tool }),
}

/** How many free calls of a tool a visitor has left today. */
export const slotsLeft: Command<{ tool: string; limit: number }, number> = {
  name: 'slot.left',
  kind: 'visitor',
  creates: true,
  apply(turn, { tool, limit }) {
    if (!turn.has('visitor', turn.aggregateId)) return limit
    const { day, used } = turn.peek('visitor', turn.aggregateId).context
    const gone = utcDay(turn.now) > day ? 0 : (used[tool] ?? 0)
    return Math.max(0, limit - gone - reservedFor(turn, tool))
  },
}

const reservedFor = (turn: Turn, tool: string): number =>
  turn.soft.count((hold) => hold.tool === tool && utcDay(hold.at) === utcDay(turn.now))
