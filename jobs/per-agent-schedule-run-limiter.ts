import type { DueScheduleRun } from '../persistence/schedules/schedule-store.ts'

/**
 * Limits concurrent runs per agent on this node. Further ones are set aside, and `again` is called
 * when there is room. A lost one is harmless: its slot stays due.
 */
export function createPerAgentScheduleRunLimiter(
  share: number,
  again: (due: DueScheduleRun) => void,
) {
  const running = new Map<string, number>()
  const aside = new Map<string, Map<string, DueScheduleRun>>()

  function ended(agentId: string): void {
    const left = (running.get(agentId) ?? 0) - 1
    if (left > 0) running.set(agentId, left)
    else running.delete(agentId)
    const others = aside.get(agentId)
    if (others === undefined) return
    // As many as fit: if other nodes take some, no run ends here to start the rest.
    for (const due of [...others.values()].slice(0, share - left)) {
      others.delete(due.scheduleId)
      again(due)
    }
    if (others.size === 0) aside.delete(agentId)
  }

  return async function withinShare(due: DueScheduleRun, run: () => Promise<void>): Promise<void> {
    const { agentId, scheduleId } = due
    const busy = running.get(agentId) ?? 0
    if (busy >= share) {
      // One per schedule; an agent has few of them.
      aside.set(agentId, (aside.get(agentId) ?? new Map()).set(scheduleId, due))
      return
    }
    running.set(agentId, busy + 1)
    await run().finally(() => ended(agentId))
  }
}
