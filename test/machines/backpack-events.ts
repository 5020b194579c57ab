import type { SnapshotFrom } from 'xstate'
import { DAY } from '../../core/clock.ts'
import { backpack, type BackpackEvent, type BackpackInput } from '../../machines/backpack.ts'
import type { Fuse } from '../../machines/fuse.ts'
import { begin, step, usd } from './play.ts'

export type Snapshot = SnapshotFrom<typeof backpack>
export const NOON = Date.UTC(2026, 10, 21, 12)
export const LAST_MS = Date.UTC(2026, 10, 22) - 1
export const MIDNIGHT = Date.UTC(2026, 10, 22)
export const MONTH_END = Date.UTC(2026, 11, 1) - 1
export const DECEMBER = Date.UTC(2026, 11, 1)
export const EXPIRES = NOON + 90 * DAY

export const fuse = (
  perCall: number | null,
  perDay: number | null,
  perMonth: number | null,
): Fuse => {
  const limit = (amount: number | null) => (amount === null ? null : usd(amount))
  return { perCall: limit(perCall), perDay: limit(perDay), perMonth: limit(perMonth) }
}
export const input = (more: Partial<BackpackInput> = {}): BackpackInput => ({
  backpackId: 'bp_1',
  agentName: 'scout',
  tools: null,
  fuse: fuse(50, 100, 300),
  pager: { webhookUrl: null, ownerEmail: 'owner@example.com', ownerTelegram: null },
  createdAt: NOON,
  expiresAt: EXPIRES,
  ...more,
})
export const create = (more: Partial<BackpackInput> = {}): Snapshot =>
  begin(backpack, input(more)).snapshot

export interface Reserved {
  day?: number
  month?: number
}
const want = (amount: number, at: number, { day = 0, month = day }: Reserved, tool: string) => ({
  tool,
  amount: usd(amount),
  reservedDay: usd(day),
  reservedMonth: usd(month),
  at,
})
export const ask = (amount: number, at = NOON, reserved: Reserved = {}, tool = 'web_search') =>
  ({ type: 'ASK', ...want(amount, at, reserved, tool) }) as const
export const hold = (amount: number, at = NOON, reserved: Reserved = {}, tool = 'web_search') =>
  ({ type: 'HOLD', ...want(amount, at, reserved, tool) }) as const
export const charge = (amount: number, at = NOON, heldAt = at) =>
  ({ type: 'CHARGE', tool: 'web_search', amount: usd(amount), heldAt, at }) as const
export const capture = (held: number, amount: number, at = NOON, heldAt = at) =>
  ({ type: 'CAPTURE', held: usd(held), amount: usd(amount), heldAt, at }) as const
export const release = (held: number, at = NOON, heldAt = at) =>
  ({ type: 'RELEASE', held: usd(held), heldAt, at }) as const
export const revoke = { type: 'REVOKE', at: NOON } as const
export const renew = (expiresAt: number, at = NOON) => ({ type: 'RENEW', expiresAt, at }) as const
export const alarm = (delay: 'weekBefore' | 'dayBefore' | 'expiry') =>
  ({ type: `xstate.after.${delay}.backpack.active` }) as unknown as BackpackEvent
export const refusal = (snapshot: Snapshot, event: BackpackEvent) =>
  step(backpack, snapshot, event).refused
export const limitOf = (snapshot: Snapshot, event: BackpackEvent) => {
  const { refused, limit } = step(backpack, snapshot, event)
  return refused === 'FUSE_TRIPPED' ? limit : refused
}
