import { SECOND, msUntilNextUtcDay } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { CircuitBreaker } from '../upstream/circuit-breaker.ts'
import { parseRetryAfterMs } from '../upstream/upstream-client.ts'
import type { LlmProviderModel } from './chat-completion.ts'

/** A failed attempt at a model. */
export interface LlmAttemptFailure {
  readonly error: unknown
  /** A token has been sent to the caller, so no other model may start again. */
  readonly hasStreamed: boolean
}

export const emptyLlmAnswerError = ({ provider, model }: LlmProviderModel) =>
  new ServiceError('upstream_error', { provider: provider.id, model: model.id, reason: 'empty' })

const BUDGET_DETAILS = {
  day: 'What this station spends on models in a day is used up: it begins again at midnight UTC.',
  share:
    'What this station spends on models for one caller in a day is used up: it begins again at midnight UTC.',
}

/** The error when today's remaining budget is below the maximum cost of this model. */
export const llmDailyBudgetError = (
  what: 'day' | 'share',
  { provider, model }: LlmProviderModel,
  now: number,
): ServiceError =>
  new ServiceError(what === 'day' ? 'provider_budget_exhausted' : 'model_share_exhausted', {
    provider: provider.id,
    model: model.id,
    detail: BUDGET_DETAILS[what],
    retry_after: Math.ceil(msUntilNextUtcDay(now) / SECOND),
  })

const isModelBudgetError = ({ code }: ServiceError): boolean =>
  code === 'provider_budget_exhausted' || code === 'model_share_exhausted'

const upstreamStatus = (error: unknown): number | null => {
  const status = error instanceof ServiceError ? error.details['upstream_status'] : null
  return typeof status === 'number' ? status : null
}

/** Returns whether a failed answer may be billed: partial answers are, and so are hidden reasoning tokens. */
export const isFailedLlmAnswerPossiblyBilled = (error: unknown, text: string): boolean =>
  text !== '' || (upstreamStatus(error) === null && !isHostUnreachable(error))
const isHostUnreachable = (error: unknown): boolean =>
  error instanceof ServiceError &&
  ['ECONNREFUSED', 'ENOTFOUND'].includes(String(error.details['reason']))

/** Returns whether another model may succeed, because the request is not at fault. */
export function isRetryableWithOtherModel(error: unknown): boolean {
  if (!(error instanceof ServiceError)) return false
  if (isModelBudgetError(error)) return true
  if (!error.code.startsWith('upstream_')) return false
  const status = upstreamStatus(error)
  return status === null || status >= 500 || RETRYABLE_STATUSES.has(status)
}
/** Statuses about the key, the account, the address or timing. */
const RETRYABLE_STATUSES = new Set([401, 402, 403, 404, 408, 429])

/** Records a failure in the breaker, except requests that the model refuses and callers that disconnect. */
export function recordModelErrorInCircuitBreaker(
  breaker: CircuitBreaker,
  error: unknown,
  signal: AbortSignal,
  now: number,
): void {
  if (signal.aborted) return
  if (error instanceof ServiceError && error.code === 'upstream_rate_limited') {
    breaker.recordRateLimit(parseRetryAfterMs(retryAfterHeader(error), now))
  } else if (isRetryableWithOtherModel(error)) breaker.recordFailure()
  else breaker.recordSuccess()
}

const retryAfterHeader = (error: ServiceError): string | null => {
  const header = error.details['retry_after_header']
  return typeof header === 'string' ? header : null
}

/** Returns the error that callers may see. */
export function toPublicModelError(error: unknown, now: number): unknown {
  if (!(error instanceof ServiceError) || !('retry_after_header' in error.details)) return error
  const { retry_after_header: _, ...details } = error.details
  const retryAfter = Math.ceil(parseRetryAfterMs(retryAfterHeader(error), now) / SECOND)
  return new ServiceError(error.code, { ...details, retry_after: retryAfter }, error)
}

/** Returns a single failure unchanged; combines several under their common code. */
export function combineModelFailures(failures: readonly LlmAttemptFailure[]): unknown {
  const errors = failures.map(({ error }) => error).filter((error) => error instanceof ServiceError)
  const [first] = errors
  if (first === undefined || errors.length === 1) return first
  const code = commonCode(errors)
  const tried = errors.map((error) => ({
    provider: error.details['provider'] ?? null,
    model: error.details['model'] ?? null,
    code: error.code,
  }))
  const waits = errors.flatMap(({ details }) => details.retry_after ?? [])
  const wait = code !== null && waits.length > 0 ? { retry_after: Math.min(...waits) } : {}
  return new ServiceError(code ?? 'upstream_error', { tried, ...wait }, first)
}

function commonCode(errors: readonly ServiceError[]) {
  const [first] = errors
  if (errors.every(({ code }) => code === first?.code)) return first?.code ?? null
  // Only the share is exhausted: other callers could still use a cheaper model.
  return errors.every(isModelBudgetError) ? 'model_share_exhausted' : null
}
