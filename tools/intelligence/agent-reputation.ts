import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { ZERO_MICROS } from '../../core/money.ts'
import { defineTool } from '../define-tool.ts'

/** The tool `agent-reputation`: the reliability of an agent. */

const unknown = (agentId: string) => new ServiceError('agent_not_found', { agent_id: agentId })
const Share = Type.Number({ minimum: 0, maximum: 1 })

export default defineTool({
  slug: 'agent_reputation',
  name: 'Agent Reputation',
  category: 'intelligence',
  description:
    'Scores an agent from the ledger: the outcomes of its calls, its age, tips and hive entries.',
  tags: ['reputation', 'trust', 'agents'],
  useCases: ['Decide whether to trust a counterparty', 'Weigh hive entries by their author'],
  examples: [{ agent_id: '018f2f6e-7c1a-7b3a-9c55-3d0a3f1b2c4d' }],
  access: 'free',
  price: ZERO_MICROS,
  free: { perDay: 10, overage: null },
  effect: 'none',
  timeoutMs: 5_000,
  input: Type.Object(
    { agent_id: Type.String({ format: 'uuid' }) },
    { additionalProperties: false },
  ),
  output: Type.Object({
    agent_id: Type.String({ format: 'uuid' }),
    score: Type.Integer({ minimum: 0, maximum: 100 }),
    tier: Type.String(),
    reliability: Type.Number({
      minimum: 0,
      maximum: 1,
      description:
        'Lower bound of the 95 % Wilson interval of successful calls, over all its public calls including its own errors.',
    }),
    calls: Type.Integer({ minimum: 0 }),
    tips_received_usdc: Type.Number({ minimum: 0 }),
    hive_entries: Type.Integer({ minimum: 0 }),
    age_days: Type.Number({ minimum: 0 }),
    components: Type.Record(Type.String(), Share),
  }),
  async preflight({ agent_id }, { directory }) {
    if (!(await directory.has(agent_id))) throw unknown(agent_id)
  },
  async run({ agent_id }, { usage }) {
    const found = await usage.reputation(agent_id)
    if (found === null) throw unknown(agent_id)
    return {
      agent_id: agent_id.toLowerCase(),
      score: found.score,
      tier: found.tier,
      reliability: found.reliability,
      calls: found.calls,
      tips_received_usdc: found.tipsReceived,
      hive_entries: found.hiveEntries,
      age_days: found.ageDays,
      components: { ...found.components },
    }
  },
})
