import { invalidInputError } from '../../core/errors.ts'
import { asMicros, type Micros } from '../../core/money.ts'
import type { LlmProviderModel, CompletionUsage } from './chat-completion.ts'
import type { LlmRequest } from './llm-port.ts'

/** Chooses the order in which models are tried. */

/** How often `fastest` explores at random: a model that was slow may be fast now. */
const EXPLORATION_RATE = 0.05
const LATENCY_SMOOTHING = 0.3
/** English has about four characters per token; limits assume three, and one byte in other scripts. */
const AVERAGE_CHARS_PER_TOKEN = 4
const MIN_CHARS_PER_TOKEN = 3

const promptParts = ({ prompt, system = '', schema }: LlmRequest): string[] =>
  schema === undefined ? [prompt, system] : [prompt, system, JSON.stringify(schema)]

/** An upper bound: in other scripts a token may be a single byte. */
function maxPromptTokens(request: LlmRequest): number {
  const other = promptParts(request)
    .join('')
    .replace(/[ -~\s]+/g, '')
  const latin = promptChars(request) - other.length
  return Math.ceil(latin / MIN_CHARS_PER_TOKEN) + Buffer.byteLength(other)
}

const promptChars = ({ prompt, system = '', schema }: LlmRequest): number =>
  prompt.length + system.length + (schema === undefined ? 0 : JSON.stringify(schema).length + 80)

/** USD per million tokens equals micro-USD per token. Rounded up. */
const tokenCost = ({ model }: LlmProviderModel, prompt: number, completion: number): Micros =>
  asMicros(BigInt(Math.ceil(prompt * model.in_per_mtok + completion * model.out_per_mtok - 1e-9)))

/** Returns the maximum cost of an answer, for the budget. */
export const maxCompletionCost = (candidate: LlmProviderModel, request: LlmRequest): Micros =>
  tokenCost(candidate, maxPromptTokens(request), request.maxTokens)

/** Returns the actual cost: the provider's, else by its token count, else an estimate. */
export function actualCompletionCost(
  candidate: LlmProviderModel,
  request: LlmRequest,
  text: string,
  usage: CompletionUsage | null,
) {
  const prompt = usage?.prompt_tokens ?? Math.ceil(promptChars(request) / AVERAGE_CHARS_PER_TOKEN)
  const completion = usage?.completion_tokens ?? Math.ceil(text.length / AVERAGE_CHARS_PER_TOKEN)
  const reported = usage?.cost
  const cost =
    typeof reported === 'number'
      ? asMicros(BigInt(Math.ceil(reported * 1e6 - 1e-6)))
      : tokenCost(candidate, prompt, completion)
  const tokens = { prompt, completion, total: prompt + completion }
  return { cost, tokens, estimated: usage === null }
}

export interface ModelRouting {
  /** Returns the models that accept the request, in the order to try them; never empty. */
  order(request: LlmRequest): readonly LlmProviderModel[]
  /** Records the latency of an answer with this many tokens. */
  recordLatency(candidate: LlmProviderModel, ms: number, tokens: number): void
}

/** `chance` returns numbers from 0 to 1. */
export function createModelRouting(
  candidates: readonly LlmProviderModel[],
  random: () => number,
): ModelRouting {
  /** Milliseconds per token. */
  const msPerToken = new Map<LlmProviderModel, number>()

  const sorted: Record<
    LlmRequest['preference'],
    (few: LlmProviderModel[], request: LlmRequest) => LlmProviderModel[]
  > = {
    cheapest: (few, request) => {
      const cost = (one: LlmProviderModel) => Number(maxCompletionCost(one, request))
      return few.sort((a, b) => cost(a) - cost(b) || b.model.quality - a.model.quality)
    },
    // An untried model counts as fast, so that each gets a first measurement.
    fastest: (few) => {
      const ms = (one: LlmProviderModel) => msPerToken.get(one) ?? 0
      const quick = few.sort((a, b) => ms(a) - ms(b))
      if (random() >= EXPLORATION_RATE) return quick
      const [lucky] = quick.splice(Math.floor(random() * quick.length), 1)
      return lucky === undefined ? quick : [lucky, ...quick]
    },
    smartest: (few, request) => {
      const cost = (one: LlmProviderModel) => Number(maxCompletionCost(one, request))
      return few.sort((a, b) => b.model.quality - a.model.quality || cost(a) - cost(b))
    },
  }

  return {
    order(request) {
      const needed = Math.ceil(promptChars(request) / AVERAGE_CHARS_PER_TOKEN) + request.maxTokens
      const fitting = candidates.filter(({ model }) => model.ctx >= needed)
      if (fitting.length === 0)
        throw invalidInputError('/prompt', 'is longer than any configured model accepts')
      return sorted[request.preference](fitting, request)
    },
    recordLatency(candidate, ms, tokens) {
      const fresh = ms / Math.max(1, tokens)
      const known = msPerToken.get(candidate)
      msPerToken.set(
        candidate,
        known === undefined ? fresh : known + LATENCY_SMOOTHING * (fresh - known),
      )
    },
  }
}
