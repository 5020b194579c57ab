import { SECOND, utcDay, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { createNodeRate } from '../../core/node-rate.ts'
import type { AttemptCost, Taken, Taking } from '../../core/model-spend.ts'
import { toUsdc, ZERO } from '../../core/money.ts'
import { Breaker } from '../upstream/breaker.ts'
import type { Posting } from '../upstream/posting.ts'
import { ask, type Candidate, type Patience, type Usage } from './chat.ts'
import { empty, exhausted, isPassing, judge, mayBeBilled, publicly, together } from './failures.ts'
import type { Failure } from './failures.ts'
import { jsonOf } from './json.ts'
import type { Llm, LlmAnswer, LlmRequest } from './port.ts'
import type { LlmProvider } from './providers.ts'
import { createRouting, mostCost, realCost } from './routing.ts'

/** What the operator spends on models in a UTC day, over all nodes. */
export interface Budget {
  /** Takes the most an answer may cost, of the day and of each spender's share, or nothing. */
  take(taking: Taking): Promise<Taken>
  /** Puts what it did cost in the place of what was taken, and keeps it with its call. */
  settle(taking: Taking, spent: AttemptCost): Promise<void>
}

export interface LlmParts {
  readonly providers: readonly LlmProvider[]
  readonly posting: Posting
  readonly budget: Budget
  readonly clock: Clock
  /** Numbers from 0 to 1. */
  readonly chance: () => number
  readonly patience?: Patience
  readonly log: (message: string, error: unknown) => void
}

/** A model may think; three of them must fit into the deadline of a tool. */
const PATIENCE: Patience = { firstMs: 20 * SECOND, betweenMs: 20 * SECOND }
const MOST_TRIES = 3
const AT_ONCE = 16
const REQUESTS = { name: 'models', what: 'requests to models', per: 'caller', seconds: 60 } as const

/** Null without providers. */
export function createLlm(parts: LlmParts): Llm | null {
  const { providers, clock } = parts
  const candidates = providers.flatMap((provider) =>
    provider.models.map((model): Candidate => ({ provider, model })),
  )
  if (candidates.length === 0) return null
  const routing = createRouting(candidates, parts.chance)
  const rate = createNodeRate(clock, { ...REQUESTS, most: LIMITS.llmPerMinute })
  const breakers = new Map(
    candidates.map((one) => [one, new Breaker(nameOf(one), clock, AT_ONCE)] as const),
  )
  return {
    providers: providers.map(({ id }) => id),
    async complete(request, signal, onToken = () => {}) {
      if (request.maxTokens > LIMITS.llmTokens) throw new RangeError('too many tokens asked for')
      const owner = request.caller.agentId ?? request.caller.visitor
      rate.demand(owner)
      rate.count(owner)
      const failures: Failure[] = []
      for (const candidate of routing.order(request)) {
        if (failures.length >= MOST_TRIES) break
        const breaker = breakers.get(candidate)
        if (breaker === undefined) continue
        const tried = await attempt(parts, breaker, candidate, request, signal, onToken)
        if ('error' in tried) {
          if (tried.spoken || !isPassing(tried.error)) throw tried.error
          failures.push(tried)
          continue
        }
        routing.took(candidate, tried.latencyMs, tried.tokens.completion)
        return tried
      }
      throw together(failures)
    },
  }
}

const nameOf = ({ provider, model }: Candidate): string => `${provider.id}/${model.id}`

/** One model, within what the day and the caller have left. Rejects only when the budget cannot be asked. */
async function attempt(
  parts: LlmParts,
  breaker: Breaker,
  candidate: Candidate,
  request: LlmRequest,
  signal: AbortSignal,
  onToken: (delta: string) => void,
): Promise<LlmAnswer | Failure> {
  const { clock, budget } = parts
  const taking = takingOf(candidate, request, clock.now())
  let leave: () => void
  try {
    const { agentId, visitor } = request.caller
    leave = await breaker.enter(agentId ?? visitor, signal)
  } catch (error) {
    return { error, spoken: false }
  }
  try {
    const taken = await budget.take(taking)
    if (taken !== 'taken') return { error: exhausted(taken, candidate, clock.now()), spoken: false }
    const { tried, ...cost } = await converse(parts, breaker, candidate, request, signal, onToken)
    await budget
      .settle(taking, {
        callId: request.callId,
        provider: candidate.provider.id,
        model: candidate.model.id,
        at: clock.now(),
        ...cost,
      })
      .catch((error: unknown) => parts.log('the cost of a model is not kept', error))
    return tried
  } finally {
    leave()
  }
}

const takingOf = (candidate: Candidate, request: LlmRequest, now: number): Taking => {
  const { agentId, visitor } = request.caller
  const spenders = agentId === null ? [visitor] : [...new Set([agentId, visitor])]
  return { day: utcDay(now), spenders, amount: mostCost(candidate, request) }
}

/** What came of one attempt, and what it cost. */
interface Tried extends Pick<AttemptCost, 'outcome' | 'cost' | 'estimated'> {
  readonly tried: LlmAnswer | Failure
}

async function converse(
  { clock, posting, patience = PATIENCE }: LlmParts,
  breaker: Breaker,
  candidate: Candidate,
  request: LlmRequest,
  signal: AbortSignal,
  onToken: (delta: string) => void,
): Promise<Tried> {
  const open = request.schema === undefined
  const heard = { text: '', usage: null as Usage | null, whole: false }
  const priced = () => realCost(candidate, request, heard.text, heard.usage)
  try {
    const started = clock.mono()
    const { mode } = await ask(posting, candidate, request, patience, signal, {
      token(delta) {
        heard.text += delta
        if (open) onToken(delta)
      },
      usage: (told) => void (heard.usage = told),
    })
    heard.whole = true
    const { text } = heard
    if (text.trim() === '') throw empty(candidate)
    const json = jsonOf(request, text, candidate.model.id)
    breaker.succeeded()
    const { cost, tokens, estimated } = priced()
    const [model, provider] = [candidate.model.id, candidate.provider.id]
    const latencyMs = Math.round(clock.mono() - started)
    const about = { model, provider, tokens, costUsd: toUsdc(cost), estimated, latencyMs, mode }
    return { tried: { text, json, ...about }, outcome: 'ok', cost, estimated }
  } catch (error) {
    // An answer that came whole shows a model that works, whatever a caller made it say.
    if (heard.whole) breaker.succeeded()
    else judge(breaker, error, signal, clock.now())
    const most = mayBeBilled(error, heard.text) ? mostCost(candidate, request) : ZERO
    const known = heard.whole || heard.usage !== null
    return {
      tried: { error: publicly(error, clock.now()), spoken: open && heard.text !== '' },
      outcome: error instanceof ServiceError ? error.code : 'internal',
      cost: known ? priced().cost : most,
      estimated: heard.usage === null,
    }
  }
}
