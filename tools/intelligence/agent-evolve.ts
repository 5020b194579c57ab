import Type from 'typebox'
import { fromUsdc } from '../../core/money.ts'
import { defineTool } from '../define-tool.ts'
import { tryLlmCompletion } from '../llm-call-with-fallback.ts'
import {
  proposeAgentSettingsChanges,
  toCurrentAgentSettings,
} from './usage-advice/propose-agent-settings-changes.ts'
import {
  OWN_USAGE_TOOL_DEFAULTS,
  readOwnUsage,
  DEFAULT_USAGE_WINDOW_DAYS,
} from './usage-advice/own-usage-tool-defaults.ts'

/** The tool `agent-evolve`: proposes changes to the agent's own settings. */

export default defineTool({
  ...OWN_USAGE_TOOL_DEFAULTS,
  slug: 'agent_evolve',
  name: 'Agent Evolve',
  description:
    "Proposes changes of the caller's own settings from its calls: a JSON Patch of Backpacks and schedules, each step with its reason, its saving and the request that applies it.",
  tags: ['optimisation', 'settings', 'spend'],
  useCases: ['Bound spending by what is used', 'Stop schedules that find nothing', 'Tune an agent'],
  price: fromUsdc(0.15),
  output: Type.Object({
    agent_id: Type.String({ format: 'uuid' }),
    window_days: Type.Integer(),
    settings: Type.Unsafe<object>({
      type: 'object',
      description: 'Current settings, which the patch applies to.',
    }),
    patch: Type.Array(
      Type.Object({
        op: Type.Enum(['add', 'replace']),
        path: Type.String(),
        value: Type.Unknown(),
      }),
      { description: 'RFC 6902.' },
    ),
    changes: Type.Array(
      Type.Object({
        path: Type.String(),
        why: Type.String(),
        saving_usdc_per_month: Type.Number({ minimum: 0 }),
        apply: Type.Object({
          method: Type.String(),
          path: Type.String(),
          body: Type.Unsafe<object>({ type: 'object' }),
        }),
      }),
    ),
    saving_usdc_per_month: Type.Number({ minimum: 0 }),
    summary: Type.String(),
    method: Type.Enum(['rules', 'rules+llm']),
  }),
  async run({ days = DEFAULT_USAGE_WINDOW_DAYS }, context) {
    const { agentId, known } = await readOwnUsage(days, context)
    const changes = proposeAgentSettingsChanges(known, days)
    const saving =
      changes.reduce((all, one) => all + Math.round(one.saving_usdc_per_month * 1e6), 0) / 1e6
    const plain =
      changes.length === 0
        ? 'The settings fit what is used; nothing is proposed.'
        : `${changes.length} changes would save ${saving} USDC a month. ${changes.map(({ why }) => why).join(' ')}`
    if (changes.length === 0) context.meter.waive('nothing is proposed')
    const prose =
      changes.length === 0
        ? null
        : await tryLlmCompletion(context, {
            system:
              'Explain proposed changes of settings to the operator of a software agent in at most five sober sentences, from this text alone. Add no figures.',
            prompt: plain,
            maxTokens: 300,
          })
    return {
      agent_id: agentId,
      window_days: days,
      settings: toCurrentAgentSettings(known),
      patch: changes.map(({ op, path, value }) => ({ op, path, value })),
      changes: changes.map(({ path, why, saving_usdc_per_month, apply }) => ({
        path,
        why,
        saving_usdc_per_month,
        apply,
      })),
      saving_usdc_per_month: saving,
      summary: prose?.text ?? plain,
      method: prose === null ? ('rules' as const) : ('rules+llm' as const),
    }
  },
})
