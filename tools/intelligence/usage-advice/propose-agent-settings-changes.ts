import { asMicros, toUsdc, ZERO_MICROS, type Micros } from '../../../core/money.ts'
import type {
  BackpackUsageStats,
  AgentScheduleUsageStats,
} from '../../../domain/agent-usage-stats-types.ts'
import { toMonthlyUsdc, totalSpentOf } from './usage-audit-findings.ts'
import type { AgentActivityReport } from './agent-activity-port.ts'

/** A JSON Patch operation (RFC 6902) on the agent's settings, and the request that applies it. */
export interface ProposedAgentSettingsChange {
  readonly op: 'add' | 'replace'
  readonly path: string
  readonly value: unknown
  readonly why: string
  /** Zero where it limits a risk without a saving. */
  readonly saving_usdc_per_month: number
  readonly apply: { readonly method: string; readonly path: string; readonly body: object }
}

const RUNS_IN_A_ROW = 3
const MIN_RUNS = 5
/** A fuse allows twice the busiest day. */
const HEADROOM_FACTOR = 2n
const MIN_FUSE = asMicros(10_000n)

/** Returns the current settings, which the patch applies to. */
export const toCurrentAgentSettings = ({ backpacks, schedules }: AgentActivityReport) => ({
  backpacks: Object.fromEntries(
    backpacks.map(({ id, tools, perCall, perDay, perMonth }) => [
      id,
      {
        tools: tools === null ? null : [...tools],
        fuse: {
          per_call_usdc: usdc(perCall),
          per_day_usdc: usdc(perDay),
          per_month_usdc: usdc(perMonth),
        },
      },
    ]),
  ),
  schedules: Object.fromEntries(
    schedules.map(({ id, tool, state, budget }) => [
      id,
      { tool, enabled: state === 'enabled', budget_usdc: toUsdc(budget) },
    ]),
  ),
})
const usdc = (amount: Micros | null) => (amount === null ? null : toUsdc(amount))

/** Proposes changes; each operation is valid by itself. */
export function proposeAgentSettingsChanges(
  facts: AgentActivityReport,
  windowDays: number,
): ProposedAgentSettingsChange[] {
  const active = facts.backpacks.filter(({ state }) => state === 'active')
  const busiest = facts.days.reduce<Micros>(
    (most, { spent }) => (spent > most ? spent : most),
    ZERO_MICROS,
  )
  return [
    ...active.flatMap((one) => proposeBackpackChanges(one, busiest)),
    ...(active.length === 0 && totalSpentOf(facts) > ZERO_MICROS
      ? [proposeNewBackpack(facts, busiest)]
      : []),
    ...facts.schedules
      .filter(({ state }) => state === 'enabled')
      .flatMap((one) => proposeScheduleChanges(one, windowDays)),
  ]
}

const fuseFor = (busiest: Micros): number => {
  const wide = busiest * HEADROOM_FACTOR
  return toUsdc(asMicros(wide > MIN_FUSE ? wide : MIN_FUSE))
}

function proposeBackpackChanges(
  { id, tools, perDay, used, spent }: BackpackUsageStats,
  busiest: Micros,
): ProposedAgentSettingsChange[] {
  const apply = (body: object) => ({ method: 'PATCH', path: `/api/backpack/${id}`, body })
  const found: ProposedAgentSettingsChange[] = []
  if (perDay === null && spent > ZERO_MICROS) {
    const value = fuseFor(busiest)
    found.push({
      op: 'replace',
      path: `/backpacks/${id}/fuse/per_day_usdc`,
      value,
      why: 'No daily limit is set; twice the busiest day leaves room.',
      saving_usdc_per_month: 0,
      apply: apply({ fuse: { per_day_usdc: value } }),
    })
  }
  if (tools === null && used.length > 0) {
    found.push({
      op: 'replace',
      path: `/backpacks/${id}/tools`,
      value: [...used],
      why: 'All tools are allowed, and only these were called.',
      saving_usdc_per_month: 0,
      apply: apply({ tools: [...used] }),
    })
  }
  return found
}

function proposeNewBackpack(
  { tools }: AgentActivityReport,
  busiest: Micros,
): ProposedAgentSettingsChange {
  const value = {
    tools: tools.map(({ tool }) => tool),
    fuse: { per_day_usdc: fuseFor(busiest) },
  }
  return {
    op: 'add',
    path: '/backpacks/new',
    value,
    why: 'Spending is not limited by any Backpack.',
    saving_usdc_per_month: 0,
    apply: {
      method: 'POST',
      path: '/api/backpack/create',
      body: { agent_name: 'main', ...value },
    },
  }
}

function proposeScheduleChanges(
  facts: AgentScheduleUsageStats,
  windowDays: number,
): ProposedAgentSettingsChange[] {
  const { id, runs, consecutiveFailures, unchangedRuns, spent, budget, maxRunCost } = facts
  const change = (
    path: string,
    body: object,
    value: unknown,
    why: string,
    saving = 0,
  ): ProposedAgentSettingsChange => ({
    op: 'replace',
    path: `/schedules/${id}/${path}`,
    value,
    why,
    saving_usdc_per_month: saving,
    apply: { method: 'PATCH', path: `/api/task/schedule/${id}`, body },
  })
  if (consecutiveFailures >= RUNS_IN_A_ROW) {
    return [
      change('enabled', { enabled: false }, false, `The last ${consecutiveFailures} runs failed.`),
    ]
  }
  if (runs >= MIN_RUNS && unchangedRuns >= 0.8 * runs) {
    const why = `${unchangedRuns} of ${runs} runs found what the run before had found; a longer interval, or none, loses little.`
    return [change('enabled', { enabled: false }, false, why, toMonthlyUsdc(spent, windowDays))]
  }
  const enough = asMicros(maxRunCost * HEADROOM_FACTOR)
  if (runs >= MIN_RUNS && enough > ZERO_MICROS && budget > enough) {
    const value = toUsdc(enough)
    const why = `The dearest run cost ${toUsdc(maxRunCost)} USDC; the budget bounds what a change of price may cost.`
    return [change('budget_usdc', { budget_usdc: value }, value, why)]
  }
  return []
}
