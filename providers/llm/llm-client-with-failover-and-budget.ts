import { callerBounds } from '../../core/address-bounds.ts'
import { SECOND, utcDay, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { createNodeRateLimiter } from '../../core/concurrency/node-rate-limiter.ts'
import type {
  LlmAttemptCost,
  LlmReservationResult,
  LlmSpendReservation,
} from '../../domain/llm-budget-reservation-and-cost-types.ts'
import { toUsdc, ZERO_MICROS } from '../../core/money.ts'
import { CircuitBreaker } from '../upstream/circuit-breaker.ts'
import type { StreamingPostClient } from '../upstream/streaming-post-client.ts'
import {
  requestChatCompletion,
  type LlmProviderModel,
  type StreamedTokenTimeouts,
  type CompletionUsage,
} from './chat-completion.ts'
import {
  emptyLlmAnswerError,
  llmDailyBudgetError,
  isRetryableWithOtherModel,
  recordModelErrorInCircuitBreaker,
  isFailedLlmAnswerPossiblyBilled,
  toPublicModelError,
  combineModelFailures,
} from './llm-errors.ts'
import type { LlmAttemptFailure } from './llm-errors.ts'
import { parseJsonAnswer } from './parse-llm-json-answer.ts'
import type { LlmClient, LlmAnswer, LlmRequest } from './llm-port.ts'
import type { LlmProvider } from './llm-provider-settings.ts'
import { createModelRouting, maxCompletionCost, actualCompletionCost } from './model-routing.ts'

/** The operator's daily (UTC) budget for models over all nodes. */
export interface LlmDailyBudget {
  /** Reserves the maximum cost of an answer from the day's budget and each spender's share, or nothing. */
  reserve(taking: LlmSpendReservation): Promise<LlmReservationResult>
  /** Replaces a reservation by the actual cost, and stores the cost with its call. */
  settle(taking: LlmSpendReservation, spent: LlmAttemptCost): Promise<void>
}

export interface LlmClientDeps {
  readonly providers: readonly LlmProvider[]
  readonly postClient: StreamingPostClient
  readonly budget: LlmDailyBudget
  readonly clock: Clock
  /** Returns numbers from 0 to 1. */
  readonly random: () => number
  readonly timeouts?: StreamedTokenTimeouts
  readonly log: (message: string, error: unknown) => void
}

/** Allows for reasoning; three attempts must fit the deadline of a tool. */
const DEFAULT_TOKEN_TIMEOUTS: StreamedTokenTimeouts = {
  firstTokenMs: 20 * SECOND,
  betweenTokensMs: 20 * SECOND,
}
const MAX_MODEL_ATTEMPTS = 3
const MAX_CONCURRENT_MODEL_REQUESTS = 16
const MODEL_REQUEST_RATE = {
  name: 'models',
  subject: 'requests to models',
  per: 'caller',
  windowSeconds: 60,
} as const

/** Creates the client; returns null without providers. */
export function createLlmClient(deps: LlmClientDeps): LlmClient | null {
  const { providers, clock } = deps
  const candidates = providers.flatMap((provider) =>
    provider.models.map((model): LlmProviderModel => ({ provider, model })),
  )
  if (candidates.length === 0) return null
  const routing = createModelRouting(candidates, deps.random)
  const rate = createNodeRateLimiter(clock, { ...MODEL_REQUEST_RATE, max: LIMITS.llmPerMinute })
  const breakers = new Map(
    candidates.map(
      (one) =>
        [one, new CircuitBreaker(modelKey(one), clock, MAX_CONCURRENT_MODEL_REQUESTS)] as const,
    ),
  )
  return {
    providers: providers.map(({ id }) => id),
    async complete(request, signal, onToken = () => {}) {
      if (request.maxTokens > LIMITS.llmTokens) throw new RangeError('too many tokens asked for')
      const { agentId, visitor: visitorId, site: siteId } = request.caller
      const counted = callerBounds({ agentId, visitorId, siteId })
      for (const { id, factor } of counted) rate.assertWithinLimit(id, factor)
      for (const { id } of counted) rate.recordHit(id)
      const failures: LlmAttemptFailure[] = []
      for (const candidate of routing.order(request)) {
        if (failures.length >= MAX_MODEL_ATTEMPTS) break
        const breaker = breakers.get(candidate)
        if (breaker === undefined) continue
        const tried = await attemptModel(deps, breaker, candidate, request, signal, onToken)
        if ('error' in tried) {
          if (tried.hasStreamed || !isRetryableWithOtherModel(tried.error)) throw tried.error
          failures.push(tried)
          continue
        }
        routing.recordLatency(candidate, tried.latencyMs, tried.tokens.completion)
        return tried
      }
      throw combineModelFailures(failures)
    },
  }
}

const modelKey = ({ provider, model }: LlmProviderModel): string => `${provider.id}/${model.id}`

/** Tries one model within the remaining budgets. Rejects only when the budget is unavailable. */
async function attemptModel(
  deps: LlmClientDeps,
  breaker: CircuitBreaker,
  candidate: LlmProviderModel,
  request: LlmRequest,
  signal: AbortSignal,
  onToken: (delta: string) => void,
): Promise<LlmAnswer | LlmAttemptFailure> {
  const { clock, budget } = deps
  const taking = toBudgetReservation(candidate, request, clock.now())
  let leave: () => void
  try {
    const { agentId, visitor, site } = request.caller
    leave = await breaker.acquire(agentId ?? site ?? visitor, signal)
  } catch (error) {
    return { error, hasStreamed: false }
  }
  try {
    const taken = await budget.reserve(taking)
    if (taken !== 'taken')
      return { error: llmDailyBudgetError(taken, candidate, clock.now()), hasStreamed: false }
    const { tried, ...cost } = await runModelAttempt(
      deps,
      breaker,
      candidate,
      request,
      signal,
      onToken,
    )
    await budget
      .settle(taking, {
        callId: request.callId,
        provider: candidate.provider.id,
        model: candidate.model.id,
        at: clock.now(),
        ...cost,
      })
      .catch((error: unknown) => deps.log('the cost of a model is not kept', error))
    return tried
  } finally {
    leave()
  }
}

const toBudgetReservation = (
  candidate: LlmProviderModel,
  request: LlmRequest,
  now: number,
): LlmSpendReservation => {
  const { agentId, visitor, site } = request.caller
  const spenders = [...new Set([agentId, visitor, site])].filter((one) => one !== null)
  return { day: utcDay(now), spenders, amount: maxCompletionCost(candidate, request) }
}

/** The outcome of one attempt, and its cost. */
interface ModelAttempt extends Pick<LlmAttemptCost, 'outcome' | 'cost' | 'estimated'> {
  readonly tried: LlmAnswer | LlmAttemptFailure
}

async function runModelAttempt(
  { clock, postClient, timeouts = DEFAULT_TOKEN_TIMEOUTS }: LlmClientDeps,
  breaker: CircuitBreaker,
  candidate: LlmProviderModel,
  request: LlmRequest,
  signal: AbortSignal,
  onToken: (delta: string) => void,
): Promise<ModelAttempt> {
  const open = request.schema === undefined
  const received = { text: '', usage: null as CompletionUsage | null, whole: false }
  const priced = () => actualCompletionCost(candidate, request, received.text, received.usage)
  try {
    const started = clock.mono()
    const { mode } = await requestChatCompletion(postClient, candidate, request, timeouts, signal, {
      onToken(delta) {
        received.text += delta
        if (open) onToken(delta)
      },
      onUsage: (usage) => void (received.usage = usage),
    })
    received.whole = true
    const { text } = received
    if (text.trim() === '') throw emptyLlmAnswerError(candidate)
    const json = parseJsonAnswer(request, text, candidate.model.id)
    breaker.recordSuccess()
    const { cost, tokens, estimated } = priced()
    const [model, provider] = [candidate.model.id, candidate.provider.id]
    const latencyMs = Math.round(clock.mono() - started)
    const about = { model, provider, tokens, costUsd: toUsdc(cost), estimated, latencyMs, mode }
    return { tried: { text, json, ...about }, outcome: 'ok', cost, estimated }
  } catch (error) {
    // A complete answer shows a working model, even when it does not match the schema.
    if (received.whole) breaker.recordSuccess()
    else recordModelErrorInCircuitBreaker(breaker, error, signal, clock.now())
    const most = isFailedLlmAnswerPossiblyBilled(error, received.text)
      ? maxCompletionCost(candidate, request)
      : ZERO_MICROS
    const known = received.whole || received.usage !== null
    return {
      tried: {
        error: toPublicModelError(error, clock.now()),
        hasStreamed: open && received.text !== '',
      },
      outcome: error instanceof ServiceError ? error.code : 'internal',
      cost: known ? priced().cost : most,
      estimated: received.usage === null,
    }
  }
}
