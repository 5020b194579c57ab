import Type from 'typebox'
import { fromUsdc, toUsdc } from '../core/money.ts'
import { defineTool } from './define.ts'
import { perhaps } from './evidence/ask.ts'
import { burnOf, findingsOf, healthOf, spentIn } from './facts/findings.ts'
import { aboutOwnCalls, ownCalls, WINDOW_DAYS } from './facts/own-calls.ts'

export default defineTool({
  ...aboutOwnCalls,
  slug: 'self_audit',
  name: 'Self Audit',
  description:
    "Audits the caller's own calls: money, success and p95 of each tool, repeated requests, burn rate, and which rules they break.",
  tags: ['audit', 'spend', 'reliability'],
  useCases: ['Find what fails', 'See how long the balance lasts', 'Report to the operator'],
  price: fromUsdc(0.08),
  output: Type.Object({
    agent_id: Type.String({ format: 'uuid' }),
    window_days: Type.Integer(),
    calls: Type.Integer({ minimum: 1 }),
    spent_usdc: Type.Number(),
    success_rate: Type.Number({ minimum: 0, maximum: 1 }),
    health_score: Type.Integer({ minimum: 0, maximum: 100 }),
    tools: Type.Array(
      Type.Object({
        tool: Type.String(),
        calls: Type.Integer(),
        success_rate: Type.Number(),
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
  async run({ days = WINDOW_DAYS }, context) {
    const { agentId, at, known } = await ownCalls(days, context)
    const calls = known.tools.reduce((all, one) => all + one.calls, 0)
    const failed = known.tools.reduce((all, one) => all + one.failed, 0)
    const findings = findingsOf(known, days, at)
    const [spent, daily] = [spentIn(known), burnOf(known, at)]
    const rate = Math.round((1 - failed / calls) * 1e4) / 1e4
    const plain = [
      `${calls} calls in ${days} days cost ${toUsdc(spent)} USDC, ${Math.round(rate * 100)} % succeeded.`,
      ...findings.slice(0, 3).map(({ severity, subject, detail }) => {
        return `${severity}: ${subject === null ? '' : `${subject}: `}${detail}`
      }),
      ...(findings.length === 0 ? ['No rule is broken.'] : []),
    ].join(' ')
    const prose = await perhaps(context, {
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
      health_score: healthOf(findings),
      tools: known.tools.map((one) => ({
        tool: one.tool,
        calls: one.calls,
        success_rate: Math.round((1 - one.failed / one.calls) * 1e4) / 1e4,
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
