import type { SnapshotFrom } from 'xstate'
import { ZERO_MICROS } from '../../../core/money.ts'
import { agentMachine } from '../../../machines/agent-machine.ts'
import type { AgentMachineEvent } from '../../../machines/agent/agent-machine-events.ts'
import { stepMachineToInitialState, stepStateMachine, microUsd } from './state-machine-stepper.ts'

/** Sample events and snapshots of the agent machine. */

export const AGENT_TEST_NOON_MS = Date.UTC(2026, 10, 21, 12)
export type AgentSpendCheckEvent = Extract<AgentMachineEvent, { type: 'ASK' }>
export type AgentMachineSnapshot = SnapshotFrom<typeof agentMachine>

export const sampleAgentSnapshot = (promo: number, cash: number): AgentMachineSnapshot =>
  stepMachineToInitialState(agentMachine, {
    agentId: 'agent-1',
    promo: microUsd(promo),
    cash: microUsd(cash),
  }).snapshot
const UNCAPPED_SPEND_FIELDS = {
  reserved: ZERO_MICROS,
  keyId: null,
  keyCap: null,
  keyReserved: ZERO_MICROS,
  at: AGENT_TEST_NOON_MS,
}
export const sampleAgentSpendCheckEvent = (
  amount: number,
  more: Partial<AgentSpendCheckEvent> = {},
): AgentMachineEvent => ({
  type: 'ASK',
  amount: microUsd(amount),
  ...UNCAPPED_SPEND_FIELDS,
  ...more,
})
export const sampleAgentHoldEvent = (
  callId: string,
  amount: number,
  more: Partial<AgentSpendCheckEvent> = {},
): AgentMachineEvent => {
  const call = { taskId: 'task-1', backpackId: null, tool: 'web_search', idempotencyKey: null }
  return {
    type: 'HOLD',
    amount: microUsd(amount),
    ...UNCAPPED_SPEND_FIELDS,
    ...call,
    ...more,
    callId,
  }
}
export const sampleAgentChargeEvent = (
  amount: number,
  keyId: string | null = null,
  cap: number | null = null,
) =>
  ({
    type: 'CHARGE',
    amount: microUsd(amount),
    keyId,
    keyCap: cap === null ? null : microUsd(cap),
    heldAt: AGENT_TEST_NOON_MS,
    at: AGENT_TEST_NOON_MS,
  }) as const
export const sampleAgentHoldCaptureEvent = (callId: string, amount: number) =>
  ({ type: 'CAPTURE', callId, amount: microUsd(amount), at: AGENT_TEST_NOON_MS }) as const
export const sampleAgentHoldReleaseEvent = (callId: string) =>
  ({ type: 'RELEASE', callId }) as const
export const sampleAgentCreditEvent = (promo: number, cash: number) =>
  ({ type: 'CREDIT', promo: microUsd(promo), cash: microUsd(cash) }) as const
export const sampleAgentDebitEvent = (amount: number, from: 'cash' | 'any', reserved = 0) =>
  ({
    type: 'DEBIT',
    amount: microUsd(amount),
    ...UNCAPPED_SPEND_FIELDS,
    reserved: microUsd(reserved),
    from,
  }) as const
export const stepAgentMachineForRefusal = (
  snapshot: AgentMachineSnapshot,
  event: AgentMachineEvent,
) => stepStateMachine(agentMachine, snapshot, event).refused
