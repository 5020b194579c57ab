import { DAY, MINUTE, type Clock } from '../core/clock.ts'
import type { Together } from '../core/usage-facts.ts'
import type { UsageFactsStore } from '../persistence/usage-facts.ts'

const TOGETHER_MS = 10 * MINUTE
const OWN_DAYS = 30

/** What agents did: of one for itself (port `facts`), of all for recommendations. */
export function createFacts(store: UsageFactsStore, clock: Clock) {
  let together: { readonly until: number; readonly ready: Promise<Together[]> } | undefined

  return {
    async of(agentId: string, since: number) {
      const from = new Date(since)
      const [tools, days, backpacks, schedules, balance] = await Promise.all([
        store.toolsOf(agentId, from),
        store.daysOf(agentId, from),
        store.backpacksOf(agentId, from),
        store.schedulesOf(agentId, from),
        store.balanceOf(agentId),
      ])
      return { tools, days, backpacks, schedules, balance }
    },

    /** The tools an agent calls in public. */
    publicTools: (agentId: string) =>
      store.publicToolsOf(agentId, new Date(clock.now() - OWN_DAYS * DAY)),

    /** Which tools the same agents called in the last day; read every ten minutes at most. */
    async together(): Promise<readonly Together[]> {
      const now = clock.now()
      if (together === undefined || now >= together.until) {
        const ready = store.together(new Date(now - DAY))
        together = { until: now + TOGETHER_MS, ready }
        ready.catch(() => (together = undefined))
      }
      return together.ready
    },
  }
}
