import {
  GasStationError,
  NotAStation,
  RedirectRefused,
  StationUnreachable,
  toStationRefusal,
  type StationProblem,
  type StationRefusal,
} from './station-errors.ts'
import { readPaymentWays } from './payment-terms.ts'

/** Sends requests to one station: safe retries, and keys to its origin only. */

export interface TransportOptions {
  /** Origin of the station, as `https://gas.example`. */
  readonly url: string
  readonly apiKey?: string | undefined
  readonly fetch?: typeof globalThis.fetch | undefined
  /** Of one attempt; 120 s by default, since tools may run for a minute. */
  readonly timeoutMs?: number | undefined
  /** All attempts of one request; 5 by default. */
  readonly maxAttempts?: number | undefined
  /** The pause before the first retry, doubled each time; 250 ms by default. */
  readonly retryDelayMs?: number | undefined
}

export interface TransportRequest {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE' | 'PUT'
  readonly path: string
  /** JSON text. */
  readonly body?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Makes a write repeatable; a random one is used for every write without. */
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
}

export interface StationAnswer<T> {
  readonly body: T
  readonly headers: Headers
  /** The station repeated the answer of an earlier request with this Idempotency-Key. */
  readonly replayed: boolean
}

/** A refusal with the headers that came with it. */
export interface RefusedAnswer {
  readonly refusal: StationRefusal
  readonly headers: Headers
}

const DEFAULTS = { timeoutMs: 120_000, maxAttempts: 5, retryDelayMs: 250 }
/** A longer `Retry-After` is for the caller to wait. */
const MAX_RETRY_AFTER_S = 30
/** Refusals that the same request may pass later; none of them is stored under its key. */
const TRANSIENT: ReadonlySet<string> = new Set([
  'rate_limited',
  'unavailable',
  'overloaded',
  'snapshot_too_new',
  'idempotency_in_flight',
  'payment_in_progress',
  'settlement_unknown',
])

/** Returns a random key for a write. */
export const newIdempotencyKey = (): string => globalThis.crypto.randomUUID()

/** Waits; rejects as soon as the signal aborts. */
export function pauseFor(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort)
      resolve()
    }, ms)
    if (signal?.aborted === true) abort()
    else signal?.addEventListener('abort', abort, { once: true })
  })
}

/** The HTTP side of the SDK. */
export class StationTransport {
  readonly origin: string
  readonly maxAttempts: number
  readonly #options: TransportOptions

  constructor(options: TransportOptions) {
    this.origin = parseOrigin(options.url)
    this.maxAttempts = options.maxAttempts ?? DEFAULTS.maxAttempts
    this.#options = { ...options, apiKey: parseApiKey(options.apiKey) }
  }

  get apiKey(): string | undefined {
    return this.#options.apiKey
  }

  /** The same station with another key. */
  withKey(apiKey: string | undefined): StationTransport {
    return new StationTransport({ ...this.#options, apiKey })
  }

  /** Sends a request and reads its JSON answer; throws for a refusal. */
  async send<T>(request: TransportRequest): Promise<StationAnswer<T>> {
    const keyed = withIdempotencyKey(request)
    const read = async (response: Response): Promise<StationAnswer<T>> => ({
      body: (await readJson(response)) as T,
      headers: response.headers,
      replayed: response.headers.get('idempotency-replayed') === 'true',
    })
    return this.#retrying(keyed, read)
  }

  /** Opens a stream; throws for a refusal. Its body has no time limit. */
  async open(request: TransportRequest): Promise<Response> {
    return this.#retrying(withIdempotencyKey(request), async (response) => {
      const type = response.headers.get('content-type') ?? ''
      if (type.startsWith('text/event-stream')) return response
      throw notAStation(response, `an event stream was expected, and ${type || 'nothing'} came`)
    })
  }

  /** How long to pause before an attempt, in milliseconds: doubled each time, with jitter. */
  retryDelay(attempt: number): number {
    const { retryDelayMs = DEFAULTS.retryDelayMs } = this.#options
    return retryDelayMs * 2 ** Math.min(attempt, 7) * (0.5 + Math.random() / 2)
  }

  async #retrying<T>(
    request: TransportRequest,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#attempt(request, read)
      } catch (error) {
        request.signal?.throwIfAborted()
        const wait = retryAfterMs(error)
        if (wait === null || attempt + 1 >= this.maxAttempts) throw withoutHeaders(error)
        await pauseFor(Math.max(wait, this.retryDelay(attempt)), request.signal)
      }
    }
  }

  async #attempt<T>(
    { method, path, body, headers = {}, idempotencyKey, signal }: TransportRequest,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const { apiKey, timeoutMs = DEFAULTS.timeoutMs } = this.#options
    const ask = this.#options.fetch ?? globalThis.fetch
    const controller = new AbortController()
    const abort = () => controller.abort(signal?.reason)
    if (signal?.aborted === true) abort()
    signal?.addEventListener('abort', abort, { once: true })
    const timer = setTimeout(
      () => controller.abort(new Error(`no answer within ${timeoutMs} ms`)),
      timeoutMs,
    )
    let streaming = false
    try {
      const response = await ask(this.#address(path), {
        method,
        // A redirect would take the key and the payment to another address.
        redirect: 'manual',
        signal: controller.signal,
        headers: {
          accept: 'application/json, text/event-stream',
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(apiKey === undefined ? {} : { 'x-api-key': apiKey }),
          ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
          ...headers,
        },
        ...(body === undefined ? {} : { body }),
      })
      assertNoRedirect(response, this.origin)
      if (!response.ok) throw await readRefusal(response)
      const answer = await read(response)
      streaming = (answer as unknown) === response
      return answer
    } catch (error) {
      throw toTransportError(error, this.origin, controller.signal)
    } finally {
      clearTimeout(timer)
      // A stream ends with its caller's signal.
      if (!streaming) signal?.removeEventListener('abort', abort)
    }
  }

  #address(path: string): string {
    const address = new URL(path, this.origin)
    if (address.origin !== this.origin)
      throw new GasStationError('foreign_address', `${path} is not an address of ${this.origin}`)
    return address.href
  }
}

/** Returns the origin of a station; throws for anything else. */
export function parseOrigin(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (parsed !== null && /^https?:$/.test(parsed.protocol) && parsed.username === '')
    return parsed.origin
  throw new GasStationError('invalid_url', `${url} is not the http(s) address of a station`)
}

/** `fetch` would print a key that no header can hold in its error. */
function parseApiKey(key: string | undefined): string | undefined {
  const plain = key?.trim()
  if (plain === undefined || /^[\x21-\x7e]+$/.test(plain)) return plain
  throw new GasStationError('invalid_key', 'the API key has characters that no key has')
}

const withIdempotencyKey = (request: TransportRequest): TransportRequest =>
  request.method === 'GET' || request.idempotencyKey !== undefined
    ? request
    : { ...request, idempotencyKey: newIdempotencyKey() }

function assertNoRedirect(response: Response, origin: string): void {
  const { status, type, headers } = response
  if (type !== 'opaqueredirect' && (status < 300 || status >= 400)) return
  const to = headers.get('location') ?? 'another address'
  throw new RedirectRefused(
    'redirect_refused',
    `${origin} redirects to ${to}. The key was not sent there: use the final address as url.`,
  )
}

/** Carries a refusal with its headers up to the retry loop. */
class Refused extends Error {
  readonly answer: RefusedAnswer
  constructor(answer: RefusedAnswer) {
    super(answer.refusal.message)
    this.answer = answer
  }
}

const headersOfRefusal = new WeakMap<StationRefusal, Headers>()
/** The response headers of a refusal; empty for one that came in a stream. */
export const refusalHeaders = (refusal: StationRefusal): Headers =>
  headersOfRefusal.get(refusal) ?? new Headers()

function withoutHeaders(error: unknown): unknown {
  if (!(error instanceof Refused)) return error
  const { refusal, headers } = error.answer
  headersOfRefusal.set(refusal, headers)
  return refusal
}

async function readRefusal(response: Response): Promise<Error> {
  const { status, headers } = response
  const text = await response.text()
  const problem = parseProblem(text, status) ?? (status === 429 ? toProxyLimit(headers) : null)
  if (problem !== null)
    return new Refused({
      refusal: toStationRefusal(problem, readPaymentWays(headers, problem)),
      headers,
    })
  // A proxy in front of the station speaks for itself.
  return status >= 500
    ? new StationUnreachable('bad_gateway', `the way to the station answered ${status}`)
    : notAStation(response, `${status} without a problem document`)
}

/** A proxy in front of the station has its own limit, and no problem document. */
const toProxyLimit = (headers: Headers): StationProblem => ({
  code: 'rate_limited',
  status: 429,
  detail: 'the way to the station answered 429',
  retry_after: readRetryAfter(headers),
})

/** The seconds of a `Retry-After`, which may be a date; 0 for none. */
function readRetryAfter(headers: Headers): number {
  const text = headers.get('retry-after') ?? ''
  const seconds = Number(text)
  const wait = Number.isNaN(seconds) ? (Date.parse(text) - Date.now()) / 1_000 : seconds
  return wait > 0 ? wait : 0
}

function parseProblem(text: string, status: number): StationProblem | null {
  try {
    const parsed = JSON.parse(text) as Partial<StationProblem> | null
    if (typeof parsed !== 'object' || typeof parsed?.code !== 'string') return null
    return { ...parsed, code: parsed.code, status }
  } catch {
    return null
  }
}

async function readJson(response: Response): Promise<unknown> {
  const text = await response.text()
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw notAStation(response, 'the answer is not JSON')
  }
}

const notAStation = ({ url }: Response, why: string) =>
  new NotAStation('not_a_station', `${url} is no station: ${why}`)

/** Returns how long to wait before a retry, in milliseconds; null where a retry cannot help. */
function retryAfterMs(error: unknown): number | null {
  if (error instanceof StationUnreachable) return error.code === 'tls_failed' ? null : 0
  if (!(error instanceof Refused)) return null
  const { refusal, headers } = error.answer
  if (!TRANSIENT.has(refusal.code)) return null
  // An answer that is repeated from the store does not change.
  if (headers.get('idempotency-replayed') === 'true') return null
  const seconds = refusal.retryAfterSeconds ?? readRetryAfter(headers)
  return seconds <= MAX_RETRY_AFTER_S ? seconds * 1_000 : null
}

function toTransportError(error: unknown, origin: string, signal: AbortSignal): unknown {
  if (error instanceof GasStationError || error instanceof Refused) return error
  const cause = (signal.aborted ? signal.reason : rootCauseOf(error)) as Error & { code?: string }
  const isTls = /CERT|TLS|SSL|SELF_SIGNED|ALTNAME/.test(cause.code ?? '')
  return new StationUnreachable(
    isTls ? 'tls_failed' : 'unreachable',
    `${origin} does not answer: ${[cause.code, cause.message].filter(Boolean).join(' ')}`,
    error,
  )
}

/** The error below the "fetch failed" of a runtime. */
function rootCauseOf(error: unknown): unknown {
  let inner = error
  while (inner instanceof Error && inner.cause instanceof Error) inner = inner.cause
  return inner
}
