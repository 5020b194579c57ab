import type { Micros } from '../../core/money.ts'
import type { KeyLimits, KeyReservedSpend } from './key-limits.ts'
import type { AgentBalanceTier, HoldPaymentRef } from './agent-balance.ts'

export interface AgentInput {
  readonly agentId: string
  readonly promo: Micros
  readonly cash: Micros
  readonly referrer?: string | null
}

interface AgentSpendRequest extends KeyLimits, KeyReservedSpend {
  readonly amount: Micros
  /** What other calls hold in memory right now. */
  readonly reserved: Micros
  readonly at: number
  /** Another rail pays: the balance is not asked. */
  readonly payment?: HoldPaymentRef | null
}

export type AgentEvent =
  | ({ readonly type: 'ASK'; readonly callId?: string } & AgentSpendRequest)
  | ({
      readonly type: 'HOLD'
      readonly callId: string
      readonly taskId: string | null
      readonly backpackId: string | null
      readonly tool: string
      readonly idempotencyKey: string | null
    } & AgentSpendRequest)
  | ({
      readonly type: 'CHARGE'
      readonly callId?: string
      readonly amount: Micros
      /** When the call was admitted: the windows of that instant count it. */
      readonly heldAt: number
      readonly at: number
    } & KeyLimits)
  | {
      readonly type: 'CAPTURE'
      readonly callId: string
      readonly amount: Micros
      readonly at: number
    }
  | { readonly type: 'RELEASE'; readonly callId: string }
  | { readonly type: 'CREDIT'; readonly promo: Micros; readonly cash: Micros }
  /** Money that leaves for somebody else, at face value; the caps of its key count it. */
  | ({
      readonly type: 'DEBIT'
      readonly amount: Micros
      readonly reserved: Micros
      /** `cash` leaves promotional credits untouched; `any` takes them first. */
      readonly from: 'cash' | 'any'
      readonly at: number
    } & KeyLimits &
      KeyReservedSpend)
  /** USDC that arrived for this agent; what is credited and what it brings follows from its history. */
  | { readonly type: 'DEPOSIT'; readonly id: string; readonly pending: Micros }
  /** A pool lends for one call: `held` in all, `bonus` of it promotional. It is held from the start. */
  | {
      readonly type: 'LEND'
      /** Whose pool: what the call does not use goes back there, wherever the agent is by then. */
      readonly fleetId: string
      readonly callId: string
      readonly held: Micros
      readonly bonus: Micros
      readonly at: number
    }
  /** A deposit that the chain has undone, and the bonus if it brought one. */
  | { readonly type: 'UNDO_DEPOSIT'; readonly id: string; readonly amount: Micros }
  | { readonly type: 'JOIN_FLEET'; readonly fleetId: string }
  /** Names the fleet that is left; null where the agent was in none. Its loans stay as they are. */
  | { readonly type: 'LEAVE_FLEET'; readonly fleetId: string | null }

export interface AgentEmittedEvent {
  readonly type: 'low_balance'
  readonly tier: AgentBalanceTier
  /** The tier it fell from. */
  readonly from: AgentBalanceTier
  readonly balance: Micros
}
