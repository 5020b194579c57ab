import { DAY } from '../../../core/clock.ts'
import { asMicros, sumMicros, toUsdc, ZERO_MICROS, type Micros } from '../../../core/money.ts'
import type { AgentToolUsageStats } from '../../../domain/agent-usage-stats-types.ts'
import type { AgentActivityReport } from './agent-activity-port.ts'

/** Rules that audit an agent's usage. */

export interface UsageAuditFinding {
  readonly rule: string
  readonly severity: 'low' | 'medium' | 'high'
  /** The tool, Backpack or schedule concerned. */
  readonly subject: string | null
  readonly detail: string
  /** Null for a finding without a cost. */
  readonly saving_usdc_per_month: number | null
}

const MONTH_DAYS = 30
const MIN_CALLS = 5
const SLOW_MS = 10_000
const RUNS_IN_A_ROW = 3
const CONCENTRATED_SHARE = 0.7

const usd = (amount: Micros): string => `${toUsdc(amount)} USDC`

/** Converts the spending of a window to USDC per month, rounded to micro-USDC. */
export const toMonthlyUsdc = (amount: Micros, windowDays: number): number =>
  Math.round((Number(amount) * MONTH_DAYS) / windowDays) / 1e6

export const totalSpentOf = ({ tools }: AgentActivityReport): Micros =>
  sumMicros(tools.map(({ spent }) => spent))

/** Returns spending per day since the first call of the window, over at least one day. */
export function dailyBurnRateOf({ days }: AgentActivityReport, now: number): Micros {
  const [first] = days
  if (first === undefined) return ZERO_MICROS
  const span = Math.max(1, Math.ceil((now - Date.parse(first.day)) / DAY))
  return asMicros(sumMicros(days.map(({ spent }) => spent)) / BigInt(span))
}

const SEVERITIES = ['high', 'medium', 'low'] as const

/** Returns every finding, most severe first. */
export function listUsageAuditFindings(
  facts: AgentActivityReport,
  windowDays: number,
  now: number,
): UsageAuditFinding[] {
  const all = [
    ...facts.tools.flatMap((tool) => toolFindings(tool, windowDays)),
    ...burnRateFindings(facts, now),
    ...concentrationFindings(facts),
    ...scheduleFindings(facts),
    ...limitFindings(facts),
  ]
  const grave = ({ severity }: UsageAuditFinding) => SEVERITIES.indexOf(severity)
  return all.sort((a, b) => grave(a) - grave(b))
}

function toolFindings(facts: AgentToolUsageStats, windowDays: number): UsageAuditFinding[] {
  const { tool, calls, failed, p95Ms, repeated, repeatedSpent, failures } = facts
  const found: UsageAuditFinding[] = []
  const rate = failed / calls
  if (calls >= MIN_CALLS && rate >= 0.2) {
    const why = failures.map(({ code, count }) => `${code} (${count})`).slice(0, 3)
    found.push({
      rule: 'failing_tool',
      severity: rate >= 0.5 ? 'high' : 'medium',
      subject: tool,
      detail: `${failed} of ${calls} calls failed: ${why.join(', ')}.`,
      saving_usdc_per_month: null,
    })
  }
  if (repeated > 0) {
    found.push({
      rule: 'duplicate_inputs',
      severity: repeatedSpent > ZERO_MICROS ? 'medium' : 'low',
      subject: tool,
      detail: `${repeated} calls repeated an earlier request word for word under another Idempotency-Key; they cost ${usd(repeatedSpent)}.`,
      saving_usdc_per_month: toMonthlyUsdc(repeatedSpent, windowDays),
    })
  }
  if (calls >= MIN_CALLS && p95Ms > SLOW_MS) {
    found.push({
      rule: 'slow_tool',
      severity: 'low',
      subject: tool,
      detail: `One in twenty calls takes ${p95Ms} ms or longer.`,
      saving_usdc_per_month: null,
    })
  }
  return found
}

function burnRateFindings(facts: AgentActivityReport, now: number): UsageAuditFinding[] {
  const daily = dailyBurnRateOf(facts, now)
  if (daily === ZERO_MICROS) return []
  const left = Number(facts.balance) / Number(daily)
  if (left >= 7) return []
  return [
    {
      rule: 'burn_rate',
      severity: left < 3 ? 'high' : 'medium',
      subject: null,
      detail: `At ${usd(daily)} a day the balance of ${usd(facts.balance)} lasts ${left.toFixed(1)} days.`,
      saving_usdc_per_month: null,
    },
  ]
}

function concentrationFindings(facts: AgentActivityReport): UsageAuditFinding[] {
  const total = totalSpentOf(facts)
  const [first] = facts.tools
  if (first === undefined || facts.tools.length < 2 || total === ZERO_MICROS) return []
  const share = Number(first.spent) / Number(total)
  if (share < CONCENTRATED_SHARE) return []
  return [
    {
      rule: 'concentrated_spend',
      severity: 'low',
      subject: first.tool,
      detail: `${Math.round(share * 100)} % of the money went to one tool.`,
      saving_usdc_per_month: null,
    },
  ]
}

const scheduleFindings = ({ schedules }: AgentActivityReport): UsageAuditFinding[] =>
  schedules
    .filter(({ consecutiveFailures }) => consecutiveFailures >= RUNS_IN_A_ROW)
    .map(({ id, tool, consecutiveFailures }) => ({
      rule: 'failing_schedule',
      severity: 'medium',
      subject: id,
      detail: `The last ${consecutiveFailures} runs of ${tool} failed.`,
      saving_usdc_per_month: null,
    }))

/** Finds spending without a limit set by the owner. */
function limitFindings(facts: AgentActivityReport): UsageAuditFinding[] {
  const fused = facts.backpacks.some(({ state, perDay, perMonth }) => {
    return state === 'active' && (perDay !== null || perMonth !== null)
  })
  if (fused || totalSpentOf(facts) === ZERO_MICROS) return []
  return [
    {
      rule: 'no_limits',
      severity: 'low',
      subject: null,
      detail: 'Spending is not limited by a Backpack with a daily or monthly fuse.',
      saving_usdc_per_month: null,
    },
  ]
}

/** Returns the score; 100 without findings. */
export const usageHealthScoreOf = (findings: readonly UsageAuditFinding[]): number =>
  Math.max(0, 100 - findings.reduce((all, { severity }) => all + SEVERITY_PENALTY[severity], 0))
const SEVERITY_PENALTY = { high: 25, medium: 10, low: 3 } as const
