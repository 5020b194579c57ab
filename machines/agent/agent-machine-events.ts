import type { Micros } from '../../core/money.ts'
import type { BonusLeft } from '../../domain/pricing.ts'
import type { ApiKeySpendCaps, ApiKeyInMemoryHolds } from './api-key-spend-caps.ts'
import type { AgentBalanceTier, ExternalPaymentOfHold } from './agent-balance.ts'

/** Events that the agent machine receives and emits. */

export interface AgentMachineInput {
  readonly agentId: string
  readonly promo: Micros
  readonly cash: Micros
  readonly referrer?: string | null
  readonly parent?: string | null
}

interface AgentSpendRequest extends ApiKeySpendCaps, ApiKeyInMemoryHolds {
  readonly amount: Micros
  /** Amount that other calls hold in memory now. */
  readonly reserved: Micros
  readonly at: number
  /** `cash` leaves promotional credits untouched; by default they are spent first. */
  readonly from?: 'cash'
  /** An on-chain payment pays: the balance is not checked. */
  readonly payment?: ExternalPaymentOfHold | null
  /** A task pass pays: the balance is not checked. */
  readonly passId?: string | null
}

export type AgentMachineEvent =
  | ({ readonly type: 'ASK'; readonly callId?: string } & AgentSpendRequest)
  | ({
      readonly type: 'HOLD'
      readonly callId: string
      readonly taskId: string | null
      readonly backpackId: string | null
      readonly tool: string
      readonly idempotencyKey: string | null
    } & AgentSpendRequest)
  /** Admits and charges at once: nothing is held in between. */
  | ({ readonly type: 'SPEND'; readonly callId: string } & AgentSpendRequest)
  | ({
      readonly type: 'CHARGE'
      readonly callId?: string
      readonly amount: Micros
      /** A task pass pays: the caps of the key count the amount, and the balance is not charged. */
      readonly passId?: string | null
      /** When the call was admitted. The spend windows of that time count it. */
      readonly heldAt: number
      readonly at: number
    } & ApiKeySpendCaps)
  | {
      readonly type: 'CAPTURE'
      readonly callId: string
      readonly amount: Micros
      readonly at: number
    }
  | { readonly type: 'RELEASE'; readonly callId: string }
  | { readonly type: 'CREDIT'; readonly promo: Micros; readonly cash: Micros }
  /** A transfer to another agent at face value. The caps of the key count it. */
  | ({
      readonly type: 'DEBIT'
      readonly amount: Micros
      readonly reserved: Micros
      /** `cash` leaves promotional credits untouched; `any` spends them first. */
      readonly from: 'cash' | 'any'
      readonly at: number
    } & ApiKeySpendCaps &
      ApiKeyInMemoryHolds)
  /** Received USDC. The credited amount and bonus follow from the agent's history. */
  | {
      readonly type: 'DEPOSIT'
      readonly id: string
      readonly pending: Micros
      readonly bonusLeft?: BonusLeft
    }
  /** A pool lends `held` for one call, `bonus` of it promotional. It is held at once. */
  | {
      readonly type: 'LEND'
      /** The lending pool. The unused part returns there, even after the agent left the fleet. */
      readonly fleetId: string
      readonly callId: string
      readonly held: Micros
      readonly bonus: Micros
      readonly at: number
    }
  /** A deposit that the chain has undone, with its bonus. */
  | { readonly type: 'UNDO_DEPOSIT'; readonly id: string; readonly amount: Micros }
  | { readonly type: 'JOIN_FLEET'; readonly fleetId: string }
  /** The fleet to leave; null when the agent was in none. Its loans stay. */
  | { readonly type: 'LEAVE_FLEET'; readonly fleetId: string | null }
  /** Its owner lets it spend nothing from now on. */
  | { readonly type: 'FREEZE'; readonly at: number }
  | { readonly type: 'UNFREEZE' }

export interface AgentMachineEmittedEvent {
  readonly type: 'low_balance'
  readonly tier: AgentBalanceTier
  /** The previous tier. */
  readonly from: AgentBalanceTier
  readonly balance: Micros
}
