import { add, type Micros } from '../../core/money.ts'
import type { Command } from '../../actors/command.ts'
import { balance, type Balance } from './purse.ts'

/** What an agent has and what it still waits for. */
export interface Funds extends Balance {
  /** Deposits below the smallest one that is credited. */
  readonly pending: Micros
  /** Held by calls, in the ledger and in memory. */
  readonly inUse: Micros
  /** No deposit has been credited yet: the next one brings the bonus. */
  readonly bonusAhead: boolean
}

/** The credits and the deposits of an agent, its inbox absorbed. */
export const funds: Command<Record<string, never>, Funds> = {
  name: 'funds',
  kind: 'agent',
  apply(turn, input) {
    const credits = balance.apply(turn, input)
    const { pending, firstDeposit } = turn.peek('agent', turn.aggregateId).context
    const inUse = add(credits.held, credits.reserved)
    return { ...credits, pending, inUse, bonusAhead: firstDeposit === null }
  },
}
