import { addMicros, type Micros } from '../../core/money.ts'
import type { AggregateCommand } from '../../actors/aggregate-command-types.ts'
import { getAgentBalanceCommand, type AgentBalance } from './agent-account-commands.ts'

/** The credits of an agent and its pending deposits. */
export interface AgentBalanceAndPendingDeposits extends AgentBalance {
  /** Deposits below the minimum that is credited. */
  readonly pending: Micros
  /** Held by calls, in the ledger and in memory. */
  readonly inUse: Micros
  /** True until a deposit has been credited: the next one brings the bonus. */
  readonly bonusAhead: boolean
}

/** The credits and deposits of an agent, after absorbing its inbox. */
export const getAgentBalanceAndDepositsCommand: AggregateCommand<
  Record<string, never>,
  AgentBalanceAndPendingDeposits
> = {
  name: 'funds',
  kind: 'agent',
  apply(ctx, input) {
    const credits = getAgentBalanceCommand.apply(ctx, input)
    const { pending, firstDeposit } = ctx.snapshotOf('agent', ctx.aggregateId).context
    const inUse = addMicros(credits.held, credits.reserved)
    return { ...credits, pending, inUse, bonusAhead: firstDeposit === null }
  },
}
