import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { fromUsdc, ZERO_MICROS } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool, type ToolPreflightContext } from '../define-tool.ts'
import {
  EXTRACTIVE_MODEL,
  answerExtractively,
  explainNoExtractiveAnswer,
} from '../../providers/llm/extractive-answer.ts'

/** The tool `llm-routing`: answers a prompt with a language model. */

const DEFAULT_MAX_TOKENS = 500
const DEFAULT_TEMPERATURE = 0.7
const NO_MODEL =
  'No language model is configured here. Without one only summaries and keywords of a given text, arithmetic, and what the hive says word for word are answered.'

interface Input {
  prompt: string
  system?: string
  max_tokens?: number
}

/** Answers by built-in methods; throws `provider_not_configured` where they cannot. */
async function answerWithoutLlm(
  { prompt, system, max_tokens = DEFAULT_MAX_TOKENS }: Input,
  asking: ToolPreflightContext,
) {
  const { caller, now } = asking
  const request = {
    prompt,
    system,
    maxTokens: max_tokens,
    agentId: caller.agentId,
    reader: caller.agentId ?? caller.visitor,
    at: now().getTime(),
  }
  const answer = await answerExtractively(request, asking)
  if (answer !== null) return answer
  const missing = explainNoExtractiveAnswer(prompt, system)
  throw new ServiceError('provider_not_configured', {
    requires: ['LLM_PROVIDERS'],
    detail: [NO_MODEL, ...(missing === null ? [] : [missing])].join(' '),
  })
}

export default defineTool({
  slug: 'llm_routing',
  name: 'LLM Routing',
  category: 'compute',
  description:
    'Answers a prompt by the cheapest, fastest or smartest configured model and falls back to the next; without a model the answer is extractive and labelled as such.',
  tags: ['llm', 'routing', 'text'],
  useCases: ['Draft text', 'Summarise a document', 'Ask the model that is cheapest right now'],
  examples: [
    { prompt: 'What is (17 + 4) * 2.5?' },
    {
      prompt:
        'Summarize: Gas on Base stays low on weekends. Batch transfers are cheapest on Sundays. Weekday gas on Base is three times as dear.',
      max_tokens: 80,
      model_preference: 'cheapest',
    },
  ],
  access: 'free_with_key',
  price: ZERO_MICROS,
  keyless: fromUsdc(0.01),
  effect: 'none',
  timeoutMs: 80_000,
  input: Type.Object(
    {
      prompt: Type.String({ pattern: NOT_BLANK_PATTERN, minLength: 1, maxLength: 20_000 }),
      system: Type.Optional(Type.String({ maxLength: 8_000 })),
      max_tokens: Type.Optional(
        Type.Integer({ minimum: 1, maximum: LIMITS.llmTokens, default: DEFAULT_MAX_TOKENS }),
      ),
      model_preference: Type.Optional(
        Type.Enum(['cheapest', 'fastest', 'smartest'], { default: 'cheapest' }),
      ),
      temperature: Type.Optional(
        Type.Number({ minimum: 0, maximum: 2, default: DEFAULT_TEMPERATURE }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    text: Type.String(),
    model_used: Type.String({ description: 'The provider and its model.' }),
    tokens_used: Type.Integer({ minimum: 0 }),
    cost_usdc: Type.Number({ minimum: 0, description: 'Cost for the station.' }),
    latency_ms: Type.Integer({ minimum: 0 }),
    estimated: Type.Optional(
      Type.Boolean({
        description: 'The provider returned no token count; it is estimated from the length.',
      }),
    ),
    degraded: Type.Optional(Type.Boolean({ description: 'No model was called.' })),
    method: Type.Optional(Type.Enum(['summary', 'keywords', 'arithmetic', 'hive'])),
    sources: Type.Optional(
      Type.Array(Type.String(), { description: 'Hive entries quoted in the answer.' }),
    ),
  }),
  availability: ({ llm }) =>
    llm === null
      ? {
          available: true,
          mode: 'degraded',
          requires: ['LLM_PROVIDERS'],
          providers: [EXTRACTIVE_MODEL],
          reason: NO_MODEL,
        }
      : { available: true, mode: 'live', requires: [], providers: [...llm.providers] },
  async preflight(input, asking) {
    if (asking.llm === null) await answerWithoutLlm(input, asking)
  },
  async run(input, context) {
    const { llm, caller, callId, emit, meter, signal } = context
    if (llm === null) {
      const started = context.now().getTime()
      const { text, method, sources } = await answerWithoutLlm(input, context)
      emit({ type: 'text', delta: text })
      return {
        text,
        model_used: EXTRACTIVE_MODEL,
        tokens_used: 0,
        cost_usdc: 0,
        latency_ms: Math.max(0, context.now().getTime() - started),
        degraded: true,
        method,
        ...(sources.length === 0 ? {} : { sources: [...sources] }),
      }
    }
    const answer = await llm.complete(
      {
        prompt: input.prompt,
        ...(input.system === undefined ? {} : { system: input.system }),
        maxTokens: input.max_tokens ?? DEFAULT_MAX_TOKENS,
        temperature: input.temperature ?? DEFAULT_TEMPERATURE,
        preference: input.model_preference ?? 'cheapest',
        caller,
        callId,
      },
      signal,
      (delta) => emit({ type: 'text', delta }),
    )
    meter.served(answer.provider, answer.mode)
    return {
      text: answer.text,
      model_used: `${answer.provider}/${answer.model}`,
      tokens_used: answer.tokens.total,
      cost_usdc: answer.costUsd,
      latency_ms: answer.latencyMs,
      ...(answer.estimated ? { estimated: true } : {}),
    }
  },
})
