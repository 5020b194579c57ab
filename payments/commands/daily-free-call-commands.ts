import { ServiceError } from '../../core/errors.ts'
import type { DomainEvent } from '../../core/domain-events.ts'
import { utcDay } from '../../core/clock.ts'
import { ZERO_MICROS } from '../../core/money.ts'
import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import type { CallRow } from '../../core/aggregate-commit-row-types.ts'

/** One free call of a visitor (an address, or an IPv6 /64), per tool and UTC day (decision 20). */
export interface VisitorFreeCall {
  readonly callId: string
  readonly tool: string
  readonly limit: number
}

/** Holds a free slot in memory; throws if the tool's slots of today are used up. */
export const reserveFreeCallCommand: AggregateCommand<VisitorFreeCall, void> = {
  name: 'slot.take',
  kind: 'visitor',
  creates: true,
  apply(ctx, { callId, tool, limit }) {
    if (!ctx.has('visitor', ctx.aggregateId)) ctx.create('visitor', ctx.aggregateId, {})
    const reserved = reservedSlots(ctx, tool)
    ctx.send('visitor', ctx.aggregateId, { type: 'ASK', tool, limit, reserved, at: ctx.now })
    ctx.inMemoryHolds.add({
      callId,
      at: ctx.now,
      amount: ZERO_MICROS,
      tool,
      keyId: null,
      taskId: null,
      backpackId: null,
      passId: null,
    })
  },
}

export interface UseFreeCallInput extends VisitorFreeCall {
  /**
   * The call row and staged work of a keyless caller; an agent's own aggregate stores its calls.
   */
  readonly record: {
    readonly row: (at: number) => CallRow
    readonly rows: readonly { table: string; row: Record<string, unknown> }[]
    readonly events: readonly DomainEvent[]
  } | null
}

/** Uses up a held slot. */
export const consumeFreeCallCommand: AggregateCommand<UseFreeCallInput, { at: number }> = {
  name: 'slot.use',
  kind: 'visitor',
  apply(ctx, { callId, tool, limit, record }) {
    const hold = ctx.inMemoryHolds.get(callId)
    if (hold === undefined) throw new ServiceError('call_settled', { call_id: callId })
    ctx.inMemoryHolds.remove(callId)
    ctx.send('visitor', ctx.aggregateId, { type: 'USE', tool, limit, at: ctx.now })
    if (record !== null) {
      ctx.call(record.row(hold.at))
      for (const staged of record.rows) ctx.row(staged.table, staged.row)
      for (const event of record.events) ctx.event(event)
    }
    return { at: hold.at }
  },
  note: ({ callId, tool }) => ({ callId, tool }),
}

/** Returns a slot after a failed or free call. Stores the row of a keyless caller. */
export const releaseFreeCallCommand: AggregateCommand<
  { callId: string; tool: string; usedAt: number | null; row: CallRow | null },
  void
> = {
  name: 'slot.free',
  kind: 'visitor',
  creates: true,
  apply(ctx, { callId, tool, usedAt, row }) {
    ctx.inMemoryHolds.remove(callId)
    if (usedAt !== null) {
      ctx.send('visitor', ctx.aggregateId, { type: 'GIVE_BACK', tool, usedAt, at: ctx.now })
    }
    if (row !== null) ctx.call(row)
  },
  note: ({ callId, tool }) => ({ callId, tool }),
}

/** A visitor's remaining free calls of a tool today. */
export const getFreeCallsLeftCommand: AggregateCommand<{ tool: string; limit: number }, number> = {
  name: 'slot.left',
  kind: 'visitor',
  creates: true,
  apply(ctx, { tool, limit }) {
    if (!ctx.has('visitor', ctx.aggregateId)) return limit
    const { day, used } = ctx.snapshotOf('visitor', ctx.aggregateId).context
    const gone = utcDay(ctx.now) > day ? 0 : (used[tool] ?? 0)
    return Math.max(0, limit - gone - reservedSlots(ctx, tool))
  },
}

const reservedSlots = (ctx: CommandContext, tool: string): number =>
  ctx.inMemoryHolds.count((hold) => hold.tool === tool && utcDay(hold.at) === utcDay(ctx.now))
