import type { ErrorDetails, ServiceError } from '../../core/errors.ts'

/** Describes failures of providers with the same words for all tools. */

/** The failed provider, in words and as a machine-readable kind. */
interface FailedProvider {
  readonly who: string
  readonly kind: string
}

/** The description of a provider failure. */
interface ProviderErrorDescription {
  /** The provider and its failure. */
  readonly summary: string
  readonly advice: string
  readonly kind: string
}

const UPSTREAM: ReadonlySet<string> = new Set([
  'upstream_error',
  'upstream_schema',
  'upstream_timeout',
  'upstream_rate_limited',
  'price_unavailable',
])

/** Groups of sources that all failed, by reason or code. */
const GROUPS: Readonly<Record<string, FailedProvider>> = {
  no_search_answers: { who: 'Every search source', kind: 'search source' },
  all_platforms_down: { who: 'Every social platform', kind: 'social platform' },
  price_unavailable: { who: 'Every price source', kind: 'price source' },
}

/** Returns null for other errors. */
export function describeProviderError({
  code,
  details,
}: ServiceError): ProviderErrorDescription | null {
  if (!UPSTREAM.has(code)) return null
  const { who, kind } = identifyProvider(code, details)
  // For an address that the caller named, the detail is more specific than the code.
  const named = typeof details['host'] === 'string' && details.detail !== undefined
  const summary = named ? String(details.detail) : `${who} ${describeFailure(code, details)}.`
  return { summary, advice: retryAdvice(code, details), kind }
}

function identifyProvider(code: string, details: ErrorDetails): FailedProvider {
  const { provider, providers, model, host, tried, chains, reason } = details
  const group = GROUPS[String(reason)] ?? GROUPS[code]
  if (group !== undefined) return group
  if (Array.isArray(tried)) return { who: 'Every language model tried', kind: 'language model' }
  if (typeof model === 'string')
    return { who: `The language model ${model}`, kind: 'language model' }
  if (Array.isArray(chains))
    return { who: `Every node of ${chains.join(', ')}`, kind: 'chain node' }
  if (Array.isArray(providers))
    return { who: `Each of ${providers.join(', ')}`, kind: 'data source' }
  if (typeof host === 'string') return { who: `The site ${host}`, kind: 'web site' }
  if (provider === 'smtp') return { who: 'The mail server', kind: 'mail server' }
  if (typeof provider !== 'string') return { who: 'The provider', kind: 'provider' }
  return provider.startsWith('rpc:')
    ? { who: `The node of ${provider.slice('rpc:'.length)}`, kind: 'chain node' }
    : { who: `The provider ${provider}`, kind: 'provider' }
}

const REFUSED_US: ReadonlySet<unknown> = new Set([401, 402, 403])
const UNREACHED: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EHOSTUNREACH'])
const CUT_OFF: ReadonlySet<unknown> = new Set(['connection_lost', 'cut_off', 'UND_ERR_SOCKET'])

function describeFailure(code: string, { upstream_status: status, reason }: ErrorDetails): string {
  if (code === 'upstream_rate_limited') return 'rate-limits this station'
  if (code === 'upstream_schema') return 'answered in an unknown format'
  if (code === 'upstream_timeout') return 'did not answer in time'
  if (REFUSED_US.has(status)) return `refused this station (HTTP ${Number(status)})`
  if (isFault(status)) return `refused the request (HTTP ${status})`
  if (typeof status === 'number') return `failed (HTTP ${status})`
  if (reason === 'breaker_open') return 'has failed several times and is paused'
  if (reason === 'empty') return 'returned an empty answer'
  if (UNREACHED.has(reason)) return 'could not be reached'
  return CUT_OFF.has(reason) ? 'closed the connection' : 'failed'
}

const isFault = (status: unknown): status is number =>
  typeof status === 'number' && status >= 400 && status < 500

function retryAdvice(code: string, details: ErrorDetails): string {
  const { upstream_status: status, retry_after: wait } = details
  if (wait !== undefined) return `Try again in ${Math.ceil(wait)} s.`
  if (REFUSED_US.has(status)) return 'The operator has to look at it: trying again does not help.'
  if (isFault(status)) return 'Send another request: the same one will be refused again.'
  if (code === 'upstream_schema')
    return 'If it stays so, the operator has to look at it. Try again, with a new Idempotency-Key if you send one.'
  return 'Try again, with a new Idempotency-Key if you send one.'
}
