import { micros, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import type { BackpackFacts, ScheduleFacts } from '../../core/usage-facts.ts'
import { monthly, spentIn } from './findings.ts'
import type { AgentFacts } from './port.ts'

/** One step of a JSON Patch (RFC 6902) of the agent's settings, and the request that does it. */
export interface Change {
  readonly op: 'add' | 'replace'
  readonly path: string
  readonly value: unknown
  readonly why: string
  /** Zero where it bounds a risk and saves nothing by itself. */
  readonly saving_usdc_per_month: number
  readonly apply: { readonly method: string; readonly path: string; readonly body: object }
}

const RUNS_IN_A_ROW = 3
const FEWEST_RUNS = 5
/** A fuse leaves room for a day twice as busy as the busiest one. */
const ROOM = 2n
const SMALLEST_FUSE = micros(10_000n)

/** The settings as they are: what the patch is applied to. */
export const settingsOf = ({ backpacks, schedules }: AgentFacts) => ({
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

/** What the facts suggest to change; each step holds by itself. */
export function changesOf(facts: AgentFacts, windowDays: number): Change[] {
  const active = facts.backpacks.filter(({ state }) => state === 'active')
  const busiest = facts.days.reduce<Micros>(
    (most, { spent }) => (spent > most ? spent : most),
    ZERO,
  )
  return [
    ...active.flatMap((one) => ofBackpack(one, busiest)),
    ...(active.length === 0 && spentIn(facts) > ZERO ? [newBackpack(facts, busiest)] : []),
    ...facts.schedules
      .filter(({ state }) => state === 'enabled')
      .flatMap((one) => ofSchedule(one, windowDays)),
  ]
}

const fuseFor = (busiest: Micros): number => {
  const wide = busiest * ROOM
  return toUsdc(micros(wide > SMALLEST_FUSE ? wide : SMALLEST_FUSE))
}

function ofBackpack({ id, tools, perDay, used, spent }: BackpackFacts, busiest: Micros): Change[] {
  const apply = (body: object) => ({ method: 'PATCH', path: `/api/backpack/${id}`, body })
  const found: Change[] = []
  if (perDay === null && spent > ZERO) {
    const value = fuseFor(busiest)
    found.push({
      op: 'replace',
      path: `/backpacks/${id}/fuse/per_day_usdc`,
      value,
      why: 'Nothing bounds a day; twice the busiest day leaves room.',
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

function newBackpack({ tools }: AgentFacts, busiest: Micros): Change {
  const value = {
    tools: tools.map(({ tool }) => tool),
    fuse: { per_day_usdc: fuseFor(busiest) },
  }
  return {
    op: 'add',
    path: '/backpacks/new',
    value,
    why: 'Money is spent and no Backpack bounds it.',
    saving_usdc_per_month: 0,
    apply: {
      method: 'POST',
      path: '/api/backpack/create',
      body: { agent_name: 'main', ...value },
    },
  }
}

function ofSchedule(facts: ScheduleFacts, windowDays: number): Change[] {
  const { id, runs, failing, unchanged, spent, budget, dearestRun } = facts
  const change = (path: string, body: object, value: unknown, why: string, saving = 0): Change => ({
    op: 'replace',
    path: `/schedules/${id}/${path}`,
    value,
    why,
    saving_usdc_per_month: saving,
    apply: { method: 'PATCH', path: `/api/task/schedule/${id}`, body },
  })
  if (failing >= RUNS_IN_A_ROW) {
    return [change('enabled', { enabled: false }, false, `The last ${failing} runs failed.`)]
  }
  if (runs >= FEWEST_RUNS && unchanged >= 0.8 * runs) {
    const why = `${unchanged} of ${runs} runs found what the run before had found; a longer interval, or none, loses little.`
    return [change('enabled', { enabled: false }, false, why, monthly(spent, windowDays))]
  }
  const enough = micros(dearestRun * ROOM)
  if (runs >= FEWEST_RUNS && enough > ZERO && budget > enough) {
    const value = toUsdc(enough)
    const why = `The dearest run cost ${toUsdc(dearestRun)} USDC; the budget bounds what a change of price may cost.`
    return [change('budget_usdc', { budget_usdc: value }, value, why)]
  }
  return []
}
