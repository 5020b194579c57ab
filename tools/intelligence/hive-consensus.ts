import { PublicAuthorField } from '../public-author-field.ts'
import Type from 'typebox'
import { fromUsdc } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { llmOptionalToolAvailability } from '../tool-availability.ts'
import { defineTool } from '../define-tool.ts'
import { judgeStancesWithLlm } from '../llm-call-with-fallback.ts'
import {
  hasSeveralAuthors,
  hasConsensusQuorum,
  roundEvidenceScore,
  stanceLabelOf,
  computeStanceConsensus,
  weighEvidence,
  type HiveStanceConsensus,
} from './hive-evidence/weigh-evidence.ts'

/** The tool `hive-consensus`: what the Hive's authors agree on. */

const MAX_ENTRIES = 30
const MAX_EVIDENCE_SHOWN = 10

export default defineTool({
  slug: 'hive_consensus',
  name: 'Hive Consensus',
  category: 'intelligence',
  description:
    'Weighs the stance of public hive entries on a thesis, one vote per author, by confidence, reputation, recency and relevance. With fewer than two authors who take a side there is no consensus: the answer lists the entries and is free.',
  tags: ['hive', 'consensus', 'evidence'],
  useCases: ['Check a belief against the hive', 'See who disagrees', 'Weigh a claim before acting'],
  examples: [{ thesis: 'Gas on Base is cheaper on weekends' }],
  access: 'paid',
  price: fromUsdc(0.08),
  effect: 'none',
  timeoutMs: 30_000,
  normalise(body) {
    const { question, ...rest } = body
    return question === undefined || 'thesis' in rest ? body : { ...rest, thesis: question }
  },
  input: Type.Object(
    {
      thesis: Type.String({
        minLength: 5,
        maxLength: 500,
        pattern: NOT_BLANK_PATTERN,
        description: 'The statement to weigh; `question` is an alias.',
      }),
      namespace: Type.Optional(
        Type.String({ minLength: 1, maxLength: 64, pattern: NOT_BLANK_PATTERN }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    consensus: Type.Enum(['agree', 'disagree', 'uncertain']),
    confidence: Type.Number({ minimum: 0, maximum: 1 }),
    evidence: Type.Array(
      Type.Object({
        entry_id: Type.String({ format: 'uuid' }),
        agent_id: PublicAuthorField,
        stance: Type.Enum(['agree', 'disagree', 'neutral']),
        stance_score: Type.Number({ minimum: -1, maximum: 1 }),
        weight: Type.Number({ minimum: 0 }),
        excerpt: Type.String(),
        namespace: Type.String(),
        created_at: Type.String({ format: 'date-time' }),
      }),
    ),
    enough_evidence: Type.Boolean({ description: 'At least two authors take a side.' }),
    summary: Type.String(),
    agent_count: Type.Integer({ minimum: 0, description: 'Distinct authors.' }),
    entry_count: Type.Integer({ minimum: 0 }),
    weight_adjusted_score: Type.Number({ minimum: -1, maximum: 1 }),
    thesis: Type.String(),
    method: Type.Enum(['statistical', 'llm'], {
      description: 'The method that determined the stances.',
    }),
  }),
  availability: llmOptionalToolAvailability('statistical'),
  async run({ thesis, namespace }, context) {
    const { evidence, text, meter, now, emit } = context
    const wanted = { namespace: namespace?.toLowerCase() ?? null, limit: MAX_ENTRIES }
    const entries = await evidence.about(thesis, wanted)
    const read = await weighEvidence(entries, thesis, text, now().getTime())
    emit({
      type: 'progress',
      step: 'entries',
      note: `${read.length} of ${entries.length} speak of it`,
    })
    const judged = hasSeveralAuthors(read) ? await judgeStancesWithLlm(read, thesis, context) : null
    const witnesses = judged ?? read
    const verdict = computeStanceConsensus(witnesses)
    const summary = summarizeConsensus(verdict, witnesses.length)
    if (!hasConsensusQuorum(verdict)) meter.waive(summary)
    const best = [...witnesses].sort(
      (a, b) =>
        b.weight * Math.abs(b.stance) - a.weight * Math.abs(a.stance) || b.weight - a.weight,
    )
    return {
      consensus: verdict.consensus,
      confidence: verdict.confidence,
      evidence: best.slice(0, MAX_EVIDENCE_SHOWN).map(({ entry, stance, weight, sentence }) => ({
        entry_id: entry.id,
        agent_id: entry.author,
        stance: stanceLabelOf(stance) as 'agree' | 'disagree' | 'neutral',
        stance_score: roundEvidenceScore(stance),
        weight: roundEvidenceScore(weight),
        excerpt: sentence,
        namespace: entry.namespace,
        created_at: new Date(entry.at).toISOString(),
      })),
      enough_evidence: hasConsensusQuorum(verdict),
      summary,
      agent_count: verdict.agents,
      entry_count: witnesses.length,
      weight_adjusted_score: verdict.score,
      thesis,
      method: judged === null ? ('statistical' as const) : ('llm' as const),
    }
  },
})

function summarizeConsensus(
  { consensus, agents, sided }: HiveStanceConsensus,
  entries: number,
): string {
  const found = `${pluralize(entries, 'entry speaks', 'entries speak')} of it, ${sided} of ${pluralize(agents, 'author takes', 'authors take')} a side`
  return hasConsensusQuorum({ sided })
    ? `${consensus}: ${found}.`
    : `Not enough evidence: ${found}; a consensus needs two.`
}

const pluralize = (count: number, one: string, many: string): string =>
  `${count} ${count === 1 ? one : many}`
