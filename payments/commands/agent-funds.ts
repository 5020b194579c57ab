import { addMicros, type Micros } from '../../core/money.ts'
import type { Command } from '../../actors/command.ts'
import { getAgentBalanceCommand, type AgentBalance } from './agent-account.ts'

/** What an agent has and what it still waits for. */
export interface AgentFunds extends AgentBalance {
  /** Deposits below the smallest one that is credited. */
  readonly pending: Micros
  /** Held by calls, in the ledger and in memory. */
  readonly inUse: Micros
  /** No deposit has been credited yet: the next one brings the bonus. */
  readonly bonusAhead: boolean
}

/** The credits and the deposits of an agent, its inbox absorbed. */
export const getAgentFundsCommand: Command<Record<string, never>, AgentFunds> = {
  name: 'funds',
  kind: 'agent',
  apply(ctx, input) {
    const credits = getAgentBalanceCommand.apply(ctx, input)
    const { pending, firstDeposit } = ctx.snapshotOf('agent', ctx.aggregateId).context
    const inUse = addMicros(credits.held, credits.reserved)
    return { ...credits, pending, inUse, bonusAhead: firstDeposit === null }
  },
}
