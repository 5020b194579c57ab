import { invalid } from '../../core/errors.ts'
import { micros, type Micros } from '../../core/money.ts'
import type { Candidate, Usage } from './chat.ts'
import type { LlmRequest } from './port.ts'

/** How often `fastest` tries one at random: a model that was slow once may be quick today. */
const EXPLORATION = 0.05
const FRESH_WEIGHT = 0.3
/** A token of English is about four characters; bounds are computed with three, and a byte of other scripts. */
const CHARACTERS_A_TOKEN = 4
const FEWEST_CHARACTERS_A_TOKEN = 3

const partsOf = ({ prompt, system = '', schema }: LlmRequest): string[] =>
  schema === undefined ? [prompt, system] : [prompt, system, JSON.stringify(schema)]

/** More than a text has: of other scripts a token may stand for a single byte. */
function mostTokens(request: LlmRequest): number {
  const other = partsOf(request)
    .join('')
    .replace(/[ -~\s]+/g, '')
  const latin = lengthOf(request) - other.length
  return Math.ceil(latin / FEWEST_CHARACTERS_A_TOKEN) + Buffer.byteLength(other)
}

const lengthOf = ({ prompt, system = '', schema }: LlmRequest): number =>
  prompt.length + system.length + (schema === undefined ? 0 : JSON.stringify(schema).length + 80)

/** Prices are USD a million tokens, so a token costs as many micro-USD. Rounded up. */
const priced = ({ model }: Candidate, prompt: number, completion: number): Micros =>
  micros(BigInt(Math.ceil(prompt * model.in_per_mtok + completion * model.out_per_mtok - 1e-9)))

/** What an answer may cost at most, for the budget. */
export const mostCost = (candidate: Candidate, request: LlmRequest): Micros =>
  priced(candidate, mostTokens(request), request.maxTokens)

/** What an answer did cost: what the provider says, else its tokens by the table, else an estimate. */
export function realCost(
  candidate: Candidate,
  request: LlmRequest,
  text: string,
  usage: Usage | null,
) {
  const prompt = usage?.prompt_tokens ?? Math.ceil(lengthOf(request) / CHARACTERS_A_TOKEN)
  const completion = usage?.completion_tokens ?? Math.ceil(text.length / CHARACTERS_A_TOKEN)
  const told = usage?.cost
  const cost =
    typeof told === 'number'
      ? micros(BigInt(Math.ceil(told * 1e6 - 1e-6)))
      : priced(candidate, prompt, completion)
  const tokens = { prompt, completion, total: prompt + completion }
  return { cost, tokens, estimated: usage === null }
}

export interface Routing {
  /** The models that take the request, in the order they are to be tried; never none. */
  order(request: LlmRequest): readonly Candidate[]
  /** An answer of so many tokens took so long. */
  took(candidate: Candidate, ms: number, tokens: number): void
}

/** `chance` gives numbers from 0 to 1. */
export function createRouting(candidates: readonly Candidate[], chance: () => number): Routing {
  /** Milliseconds a token. */
  const pace = new Map<Candidate, number>()

  const sorted: Record<
    LlmRequest['preference'],
    (few: Candidate[], request: LlmRequest) => Candidate[]
  > = {
    cheapest: (few, request) => {
      const cost = (one: Candidate) => Number(mostCost(one, request))
      return few.sort((a, b) => cost(a) - cost(b) || b.model.quality - a.model.quality)
    },
    // One that was never asked counts as quick, so that each gets its first measurement.
    fastest: (few) => {
      const ms = (one: Candidate) => pace.get(one) ?? 0
      const quick = few.sort((a, b) => ms(a) - ms(b))
      if (chance() >= EXPLORATION) return quick
      const [lucky] = quick.splice(Math.floor(chance() * quick.length), 1)
      return lucky === undefined ? quick : [lucky, ...quick]
    },
    smartest: (few, request) => {
      const cost = (one: Candidate) => Number(mostCost(one, request))
      return few.sort((a, b) => b.model.quality - a.model.quality || cost(a) - cost(b))
    },
  }

  return {
    order(request) {
      const needed = Math.ceil(lengthOf(request) / CHARACTERS_A_TOKEN) + request.maxTokens
      const fitting = candidates.filter(({ model }) => model.ctx >= needed)
      if (fitting.length === 0) throw invalid('/prompt', 'is longer than any model here takes')
      return sorted[request.preference](fitting, request)
    },
    took(candidate, ms, tokens) {
      const fresh = ms / Math.max(1, tokens)
      const known = pace.get(candidate)
      pace.set(candidate, known === undefined ? fresh : known + FRESH_WEIGHT * (fresh - known))
    },
  }
}
