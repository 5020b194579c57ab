import Type from 'typebox'
import { fromUsdc, toUsdc } from '../../core/money.ts'
import type { AgentToolUsageStats } from '../../domain/agent-usage-stats-types.ts'
import { defineTool } from '../define-tool.ts'
import { tryLlmCompletion } from '../llm-call-with-fallback.ts'
import {
  dailyBurnRateOf,
  listUsageAuditFindings,
  usageHealthScoreOf,
  totalSpentOf,
} from './usage-advice/usage-audit-findings.ts'
import {
  OWN_USAGE_TOOL_DEFAULTS,
  readOwnUsage,
  DEFAULT_USAGE_WINDOW_DAYS,
} from './usage-advice/own-usage-tool-defaults.ts'

/** The tool `self-audit`: findings about the agent's own usage. */

const Rate = Type.Union([Type.Number({ minimum: 0, maximum: 1 }), Type.Null()], {
  description:
    'Share of successful calls without `caller_errors`, as in the catalogue; null without any.',
})
const CallerErrors = Type.Integer({
  minimum: 0,
  description: 'Calls that failed because of your input or funds: unknown ids, budgets, limits.',
})

/** Returns the share of successful calls among those without caller errors. */
function successRateOf({ calls, failed, callerErrors }: CallCounts): number | null {
  const ran = calls - callerErrors
  return ran === 0 ? null : Math.round((1 - (failed - callerErrors) / ran) * 1e4) / 1e4
}
type CallCounts = Pick<AgentToolUsageStats, 'calls' | 'failed' | 'callerErrors'>

export default defineTool({
  ...OWN_USAGE_TOOL_DEFAULTS,
  slug: 'self_audit',
  name: 'Self Audit',
  description:
    "Audits the caller's own calls: cost, success and p95 of each tool, repeated requests, burn rate, and broken rules.",
  tags: ['audit', 'spend', 'reliability'],
  useCases: ['Find what fails', 'See how long the balance lasts', 'Report to the operator'],
  price: fromUsdc(0.08),
  output: Type.Object({
    agent_id: Type.String({ format: 'uuid' }),
    window_days: Type.Integer(),
    calls: Type.Integer({ minimum: 1 }),
    spent_usdc: Type.Number(),
    success_rate: Rate,
    caller_errors: CallerErrors,
    health_score: Type.Integer({ minimum: 0, maximum: 100 }),
    tools: Type.Array(
      Type.Object({
        tool: Type.String(),
        calls: Type.Integer(),
        success_rate: Rate,
        caller_errors: CallerErrors,
        spent_usdc: Type.Number(),
        p95_ms: Type.Integer(),
        repeated_calls: Type.Integer(),
        failures: Type.Array(Type.Object({ code: Type.String(), count: Type.Integer() })),
      }),
    ),
    burn: Type.Object({
      usdc_per_day: Type.Number(),
      balance_usdc: Type.Number(),
      days_left: Type.Union([Type.Number(), Type.Null()]),
    }),
    findings: Type.Array(
      Type.Object({
        rule: Type.String(),
        severity: Type.Enum(['low', 'medium', 'high']),
        subject: Type.Union([Type.String(), Type.Null()]),
        detail: Type.String(),
        saving_usdc_per_month: Type.Union([Type.Number(), Type.Null()]),
      }),
    ),
    summary: Type.String(),
    method: Type.Enum(['rules', 'rules+llm']),
  }),
  async run({ days = DEFAULT_USAGE_WINDOW_DAYS }, context) {
    const { agentId, at, known } = await readOwnUsage(days, context)
    const total = (count: (one: AgentToolUsageStats) => number) =>
      known.tools.reduce((all, one) => all + count(one), 0)
    const calls = total((one) => one.calls)
    const callerErrors = total((one) => one.callerErrors)
    const findings = listUsageAuditFindings(known, days, at)
    const [spent, daily] = [totalSpentOf(known), dailyBurnRateOf(known, at)]
    const rate = successRateOf({ calls, failed: total((one) => one.failed), callerErrors })
    const plain = [
      `${calls} calls in ${days} days cost ${toUsdc(spent)} USDC.`,
      ...(rate === null
        ? []
        : [`Tools answered ${Math.round(rate * 100)} % of what was right and paid for.`]),
      ...(callerErrors === 0
        ? []
        : [`${callerErrors} failed by what was sent or could not be paid.`]),
      ...findings.slice(0, 3).map(({ severity, subject, detail }) => {
        return `${severity}: ${subject === null ? '' : `${subject}: `}${detail}`
      }),
      ...(findings.length === 0 ? ['No rule is broken.'] : []),
    ].join(' ')
    const prose = await tryLlmCompletion(context, {
      system:
        'Write a sober audit of at most five sentences for the operator of a software agent, from these figures alone. Add none of your own.',
      prompt: plain,
      maxTokens: 300,
    })
    return {
      agent_id: agentId,
      window_days: days,
      calls,
      spent_usdc: toUsdc(spent),
      success_rate: rate,
      caller_errors: callerErrors,
      health_score: usageHealthScoreOf(findings),
      tools: known.tools.map((one) => ({
        tool: one.tool,
        calls: one.calls,
        success_rate: successRateOf(one),
        caller_errors: one.callerErrors,
        spent_usdc: toUsdc(one.spent),
        p95_ms: one.p95Ms,
        repeated_calls: one.repeated,
        failures: [...one.failures],
      })),
      burn: {
        usdc_per_day: toUsdc(daily),
        balance_usdc: toUsdc(known.balance),
        days_left:
          daily === 0n ? null : Math.round((Number(known.balance) / Number(daily)) * 10) / 10,
      },
      findings,
      summary: prose?.text ?? plain,
      method: prose === null ? ('rules' as const) : ('rules+llm' as const),
    }
  },
})
