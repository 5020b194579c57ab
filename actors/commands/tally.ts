import type { Allowance, TallyChange } from '../../core/rows.ts'
import type { Command, Turn } from '../command.ts'

/** Uses one of the agent's free calls for life up, and tells how many are left; refuses when none is. */
export function useAllowance(turn: Turn, { name, most }: Allowance): number {
  const { used } = stepTally(turn, { type: 'USE', name, most })
  return most - (used[name] ?? 0)
}

/** Owns something, or puts memories in order, in the commit it is asked for in. */
export function changeTally(turn: Turn, change: TallyChange): void {
  stepTally(turn, change)
}

/** How many free calls for life the agent has left. */
export const allowanceLeft: Command<Allowance, number> = {
  name: 'allowance.left',
  kind: 'agent',
  apply(turn, { name, most }) {
    if (!turn.has('tally', turn.aggregateId)) return most
    const { used } = turn.peek('tally', turn.aggregateId).context
    return Math.max(0, most - (used[name] ?? 0))
  },
}

function stepTally(turn: Turn, event: TallyChange | ({ readonly type: 'USE' } & Allowance)) {
  const agentId = turn.aggregateId
  if (!turn.has('tally', agentId)) turn.create('tally', agentId, { agentId })
  return turn.step('tally', agentId, event).context
}
