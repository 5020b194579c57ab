import type { SnapshotFrom } from 'xstate'
import { ZERO } from '../../../core/money.ts'
import { agentMachine } from '../../../machines/agent-machine.ts'
import type { AgentEvent } from '../../../machines/agent/agent-events.ts'
import { startMachine, stepMachine, microUsd } from './machine-harness.ts'

/** Sample events and snapshots of the agent machine. */

export const AGENT_NOON_MS = Date.UTC(2026, 10, 21, 12)
export type AgentCheckEvent = Extract<AgentEvent, { type: 'ASK' }>
export type AgentMachineSnapshot = SnapshotFrom<typeof agentMachine>

export const openAgentSnapshot = (promo: number, cash: number): AgentMachineSnapshot =>
  startMachine(agentMachine, { agentId: 'agent-1', promo: microUsd(promo), cash: microUsd(cash) })
    .snapshot
export const UNCAPPED_REQUEST = {
  reserved: ZERO,
  keyId: null,
  keyCap: null,
  keyReserved: ZERO,
  at: AGENT_NOON_MS,
}
export const agentCheckEvent = (
  amount: number,
  more: Partial<AgentCheckEvent> = {},
): AgentEvent => ({
  type: 'ASK',
  amount: microUsd(amount),
  ...UNCAPPED_REQUEST,
  ...more,
})
export const agentHoldEvent = (
  callId: string,
  amount: number,
  more: Partial<AgentCheckEvent> = {},
): AgentEvent => {
  const call = { taskId: 'task-1', backpackId: null, tool: 'web_search', idempotencyKey: null }
  return { type: 'HOLD', amount: microUsd(amount), ...UNCAPPED_REQUEST, ...call, ...more, callId }
}
export const agentChargeEvent = (
  amount: number,
  keyId: string | null = null,
  cap: number | null = null,
) =>
  ({
    type: 'CHARGE',
    amount: microUsd(amount),
    keyId,
    keyCap: cap === null ? null : microUsd(cap),
    heldAt: AGENT_NOON_MS,
    at: AGENT_NOON_MS,
  }) as const
export const agentCaptureEvent = (callId: string, amount: number) =>
  ({ type: 'CAPTURE', callId, amount: microUsd(amount), at: AGENT_NOON_MS }) as const
export const agentReleaseEvent = (callId: string) => ({ type: 'RELEASE', callId }) as const
export const agentCreditEvent = (promo: number, cash: number) =>
  ({ type: 'CREDIT', promo: microUsd(promo), cash: microUsd(cash) }) as const
export const agentDebitEvent = (amount: number, from: 'cash' | 'any', reserved = 0) =>
  ({
    type: 'DEBIT',
    amount: microUsd(amount),
    ...UNCAPPED_REQUEST,
    reserved: microUsd(reserved),
    from,
  }) as const
export const agentRejectionOf = (snapshot: AgentMachineSnapshot, event: AgentEvent) =>
  stepMachine(agentMachine, snapshot, event).refused
