import type { SnapshotFrom } from 'xstate'
import { DAY } from '../../../core/clock.ts'
import { backpackMachine } from '../../../machines/backpack-machine.ts'
import type {
  BackpackMachineEvent,
  BackpackMachineInput,
} from '../../../machines/backpack/backpack-guards-and-actions.ts'
import type { Fuse } from '../../../machines/backpack/fuse-limits.ts'
import { stepMachineToInitialState, stepStateMachine, microUsd } from './state-machine-stepper.ts'

/** Sample events and snapshots of the Backpack machine. */

export type BackpackSnapshot = SnapshotFrom<typeof backpackMachine>
export const BACKPACK_TEST_NOON_MS = Date.UTC(2026, 10, 21, 12)
export const BACKPACK_TEST_END_OF_DAY_MS = Date.UTC(2026, 10, 22) - 1
export const BACKPACK_TEST_NEXT_MIDNIGHT_MS = Date.UTC(2026, 10, 22)
export const BACKPACK_TEST_END_OF_MONTH_MS = Date.UTC(2026, 11, 1) - 1
export const BACKPACK_TEST_START_OF_DECEMBER_MS = Date.UTC(2026, 11, 1)
export const BACKPACK_TEST_EXPIRES_AT_MS = BACKPACK_TEST_NOON_MS + 90 * DAY

export const fuseLimitsFromUsd = (
  perCall: number | null,
  perDay: number | null,
  perMonth: number | null,
): Fuse => {
  const limit = (amount: number | null) => (amount === null ? null : microUsd(amount))
  return { perCall: limit(perCall), perDay: limit(perDay), perMonth: limit(perMonth) }
}
export const sampleBackpackInput = (
  more: Partial<BackpackMachineInput> = {},
): BackpackMachineInput => ({
  backpackId: 'bp_1',
  agentName: 'scout',
  tools: null,
  fuse: fuseLimitsFromUsd(50, 100, 300),
  pager: { webhookUrl: null, ownerEmail: 'owner@example.com', ownerTelegram: null },
  createdAt: BACKPACK_TEST_NOON_MS,
  expiresAt: BACKPACK_TEST_EXPIRES_AT_MS,
  ...more,
})
export const sampleBackpackSnapshot = (
  more: Partial<BackpackMachineInput> = {},
): BackpackSnapshot =>
  stepMachineToInitialState(backpackMachine, sampleBackpackInput(more)).snapshot

export interface ReservedSpend {
  day?: number
  month?: number
}
const spendFields = (
  amount: number,
  at: number,
  { day = 0, month = day }: ReservedSpend,
  tool: string,
) => ({
  tool,
  amount: microUsd(amount),
  reservedDay: microUsd(day),
  reservedMonth: microUsd(month),
  at,
})
export const sampleBackpackSpendCheckEvent = (
  amount: number,
  at = BACKPACK_TEST_NOON_MS,
  reserved: ReservedSpend = {},
  tool = 'web_search',
) => ({ type: 'ASK', ...spendFields(amount, at, reserved, tool) }) as const
export const backpackHoldEvent = (
  amount: number,
  at = BACKPACK_TEST_NOON_MS,
  reserved: ReservedSpend = {},
  tool = 'web_search',
) => ({ type: 'HOLD', ...spendFields(amount, at, reserved, tool) }) as const
export const backpackChargeEvent = (amount: number, at = BACKPACK_TEST_NOON_MS, heldAt = at) =>
  ({ type: 'CHARGE', tool: 'web_search', amount: microUsd(amount), heldAt, at }) as const
export const backpackCaptureEvent = (
  held: number,
  amount: number,
  at = BACKPACK_TEST_NOON_MS,
  heldAt = at,
) => ({ type: 'CAPTURE', held: microUsd(held), amount: microUsd(amount), heldAt, at }) as const
export const backpackReleaseEvent = (held: number, at = BACKPACK_TEST_NOON_MS, heldAt = at) =>
  ({ type: 'RELEASE', held: microUsd(held), heldAt, at }) as const
export const backpackRevokeEvent = { type: 'REVOKE', at: BACKPACK_TEST_NOON_MS } as const
export const backpackRenewEvent = (expiresAt: number, at = BACKPACK_TEST_NOON_MS) =>
  ({ type: 'RENEW', expiresAt, at }) as const
export const backpackExpiryTimerEvent = (delay: 'weekBefore' | 'dayBefore' | 'expiry') =>
  ({ type: `xstate.after.${delay}.backpack.active` }) as unknown as BackpackMachineEvent
export const backpackRejectionOfMachineStep = (
  snapshot: BackpackSnapshot,
  event: BackpackMachineEvent,
) => stepStateMachine(backpackMachine, snapshot, event).refused
export const trippedFuseLimitOfMachineStep = (
  snapshot: BackpackSnapshot,
  event: BackpackMachineEvent,
) => {
  const { refused, limit } = stepStateMachine(backpackMachine, snapshot, event)
  return refused === 'FUSE_TRIPPED' ? limit : refused
}
