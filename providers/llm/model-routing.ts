import { invalidInputError } from '../../core/errors.ts'
import { micros, type Micros } from '../../core/money.ts'
import type { ProviderModel, CompletionUsage } from './chat-completion.ts'
import type { LlmRequest } from './port.ts'

/** How often `fastest` tries one at random: a model that was slow once may be quick today. */
const EXPLORATION_RATE = 0.05
const LATENCY_SMOOTHING = 0.3
/** A token of English is about four characters; bounds are computed with three, and a byte of other scripts. */
const AVERAGE_CHARS_PER_TOKEN = 4
const MIN_CHARS_PER_TOKEN = 3

const promptParts = ({ prompt, system = '', schema }: LlmRequest): string[] =>
  schema === undefined ? [prompt, system] : [prompt, system, JSON.stringify(schema)]

/** More than a text has: of other scripts a token may stand for a single byte. */
function maxPromptTokens(request: LlmRequest): number {
  const other = promptParts(request)
    .join('')
    .replace(/[ -~\s]+/g, '')
  const latin = promptChars(request) - other.length
  return Math.ceil(latin / MIN_CHARS_PER_TOKEN) + Buffer.byteLength(other)
}

const promptChars = ({ prompt, system = '', schema }: LlmRequest): number =>
  prompt.length + system.length + (schema === undefined ? 0 : JSON.stringify(schema).length + 80)

/** Prices are USD a million tokens, so a token costs as many micro-USD. Rounded up. */
const tokenCost = ({ model }: ProviderModel, prompt: number, completion: number): Micros =>
  micros(BigInt(Math.ceil(prompt * model.in_per_mtok + completion * model.out_per_mtok - 1e-9)))

/** What an answer may cost at most, for the budget. */
export const maxCompletionCost = (candidate: ProviderModel, request: LlmRequest): Micros =>
  tokenCost(candidate, maxPromptTokens(request), request.maxTokens)

/** What an answer did cost: what the provider says, else its tokens by the table, else an estimate. */
export function actualCompletionCost(
  candidate: ProviderModel,
  request: LlmRequest,
  text: string,
  usage: CompletionUsage | null,
) {
  const prompt = usage?.prompt_tokens ?? Math.ceil(promptChars(request) / AVERAGE_CHARS_PER_TOKEN)
  const completion = usage?.completion_tokens ?? Math.ceil(text.length / AVERAGE_CHARS_PER_TOKEN)
  const told = usage?.cost
  const cost =
    typeof told === 'number'
      ? micros(BigInt(Math.ceil(told * 1e6 - 1e-6)))
      : tokenCost(candidate, prompt, completion)
  const tokens = { prompt, completion, total: prompt + completion }
  return { cost, tokens, estimated: usage === null }
}

export interface ModelRouting {
  /** The models that take the request, in the order they are to be tried; never none. */
  order(request: LlmRequest): readonly ProviderModel[]
  /** An answer of so many tokens took so long. */
  recordLatency(candidate: ProviderModel, ms: number, tokens: number): void
}

/** `chance` gives numbers from 0 to 1. */
export function createModelRouting(
  candidates: readonly ProviderModel[],
  random: () => number,
): ModelRouting {
  /** Milliseconds a token. */
  const msPerToken = new Map<ProviderModel, number>()

  const sorted: Record<
    LlmRequest['preference'],
    (few: ProviderModel[], request: LlmRequest) => ProviderModel[]
  > = {
    cheapest: (few, request) => {
      const cost = (one: ProviderModel) => Number(maxCompletionCost(one, request))
      return few.sort((a, b) => cost(a) - cost(b) || b.model.quality - a.model.quality)
    },
    // One that was never asked counts as quick, so that each gets its first measurement.
    fastest: (few) => {
      const ms = (one: ProviderModel) => msPerToken.get(one) ?? 0
      const quick = few.sort((a, b) => ms(a) - ms(b))
      if (random() >= EXPLORATION_RATE) return quick
      const [lucky] = quick.splice(Math.floor(random() * quick.length), 1)
      return lucky === undefined ? quick : [lucky, ...quick]
    },
    smartest: (few, request) => {
      const cost = (one: ProviderModel) => Number(maxCompletionCost(one, request))
      return few.sort((a, b) => b.model.quality - a.model.quality || cost(a) - cost(b))
    },
  }

  return {
    order(request) {
      const needed = Math.ceil(promptChars(request) / AVERAGE_CHARS_PER_TOKEN) + request.maxTokens
      const fitting = candidates.filter(({ model }) => model.ctx >= needed)
      if (fitting.length === 0)
        throw invalidInputError('/prompt', 'is longer than any model here takes')
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
