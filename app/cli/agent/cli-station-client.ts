import { setTimeout as delay } from 'node:timers/promises'
import { newPrefixedId } from '../../../core/ids-and-api-keys.ts'
import { parseExactJson } from '../../../core/json/exact.ts'
import { toFiniteJson } from '../../../core/json/finite.ts'
import { CliFailure, USAGE_EXIT_CODE } from '../cli-verb.ts'
import { toErrorMessage } from '../cli-output.ts'
import { loadStationUrlAndApiKey, type StationUrlAndApiKey } from './cli-station-url-and-key.ts'

/** The HTTP client of the verbs that call a station. */

type Json = Readonly<Record<string, unknown>>

export interface StationRequest {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as `Idempotency-Key`. A request with one is repeated if its answer is lost. */
  readonly idempotencyKey?: string
}

export interface CliStationClient extends StationUrlAndApiKey {
  /** Resolves to the JSON answer. Throws `CliFailure` with the problem document and its exit code. */
  request(method: string, path: string, request?: StationRequest): Promise<Json>
  /** The same for a write: with an Idempotency-Key, so that it takes effect once. */
  write(method: string, path: string, request?: StationRequest): Promise<Json>
}

const MAX_ATTEMPTS = 4
const RETRY_MS = 500
/** A call whose connection broke runs on for at most this long: to give up earlier would be to call again. */
const MAX_RUN_MS = 90_000

/** A client for the station of the settings. */
export function createCliStationClient(
  access: StationUrlAndApiKey = loadStationUrlAndApiKey(),
): CliStationClient {
  const request: CliStationClient['request'] = (method, path, more = {}) =>
    sendWithRetries(access, method, path, more)
  return {
    ...access,
    request,
    write: (method, path, more = {}) =>
      request(method, path, { idempotencyKey: newPrefixedId('gas'), ...more }),
  }
}

async function sendWithRetries(
  access: StationUrlAndApiKey,
  method: string,
  path: string,
  request: StationRequest,
): Promise<Json> {
  const attempts = request.idempotencyKey === undefined ? 1 : MAX_ATTEMPTS
  let [lost, waitedMs] = [0, 0]
  for (;;) {
    try {
      return await send(access, method, path, request)
    } catch (error) {
      const isRunning = isStillRunning(error)
      if (!isRunning) lost += 1
      const isRepeatable = isRunning ? waitedMs < MAX_RUN_MS : error instanceof LostAnswer
      if (lost >= attempts || !isRepeatable) throw error
      const pause = RETRY_MS * Math.max(1, lost)
      if (isRunning) waitedMs += pause
      await delay(pause)
    }
  }
}

/** The request was sent, and its answer did not arrive. */
class LostAnswer extends CliFailure {}

const isStillRunning = (error: unknown): boolean =>
  error instanceof CliFailure && codeOf(error.document) === 'idempotency_in_flight'

async function send(
  { url, apiKey }: StationUrlAndApiKey,
  method: string,
  path: string,
  { body, headers = {}, idempotencyKey }: StationRequest,
): Promise<Json> {
  const text = body === undefined ? undefined : toBodyText(body)
  const response = await fetch(`${url}${path}`, {
    method,
    // A redirection would take the key to another place.
    redirect: 'manual',
    headers: {
      accept: 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(apiKey === null ? {} : { 'x-api-key': apiKey.reveal() }),
      ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      ...headers,
    },
    ...(text === undefined ? {} : { body: text }),
  }).catch((error: unknown) => {
    throw failureOfConnection(url, error)
  })
  if (response.status >= 300 && response.status < 400)
    throw new CliFailure(
      `${url} redirects to ${response.headers.get('location') ?? 'another address'}: set GAS_URL to it`,
    )
  const answer = await readJson(url, response)
  if (!response.ok) throw failureOfProblem(response.status, answer)
  // Whatever else answers JSON has done nothing of what was asked.
  if (!response.headers.has('x-request-id'))
    throw new CliFailure(`${url} is no station: its answer has no X-Request-Id. Set GAS_URL.`)
  return answer
}

function toBodyText(body: unknown): string {
  try {
    return toFiniteJson(body)
  } catch (error) {
    throw new CliFailure(toErrorMessage(error), USAGE_EXIT_CODE)
  }
}

/** A connection that was never made cannot have had an effect. */
function failureOfConnection(url: string, error: unknown): CliFailure {
  const cause = error instanceof Error ? error.cause : undefined
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const options = { cause: error }
  if (/^(ECONNRESET|EPIPE|UND_ERR_SOCKET|UND_ERR_(HEADERS|BODY)_TIMEOUT)$/.test(code))
    return new LostAnswer(`${url} closed the connection without an answer`, 1, options)
  return new CliFailure(
    `${url} does not answer${code === '' ? '' : ` (${code})`}: is the station running, and GAS_URL right?`,
    1,
    options,
  )
}

async function readJson(url: string, response: Response): Promise<Json> {
  const text = await response.text().catch((error: unknown) => {
    throw new LostAnswer(`${url} ended its answer too early`, 1, { cause: error })
  })
  try {
    const value = text === '' ? {} : parseExactJson(text)
    if (typeof value === 'object' && value !== null) return value as Json
  } catch {
    // Answered below: a proxy, or no station.
  }
  throw new CliFailure(`${url} answers ${response.status} without JSON: is it a gas station?`)
}

function failureOfProblem(status: number, problem: Json): CliFailure {
  const { detail, title } = problem
  const code = codeOf(problem)
  const text = [detail, title].find((one) => typeof one === 'string') ?? `answered ${status}`
  const lines = [`${String(text)} (${code || status})`, ...hintsOf(status, problem)]
  return new CliFailure(lines.join('\n  '), exitCodeOfProblem(status, code), { document: problem })
}

function hintsOf(status: number, { fund_url, remedy }: Json): string[] {
  if (status === 401) return ['set GAS_API_KEY, or run gas onboard <name> --save']
  if (status === 402 && typeof fund_url === 'string') return [`to pay: ${fund_url}`]
  const { method, url } = (remedy ?? {}) as Json
  return typeof method === 'string' && typeof url === 'string' ? [`see ${method} ${url}`] : []
}

const LIMIT_CODES: ReadonlySet<string> = new Set([
  'task_budget_exceeded',
  'schedule_budget_exceeded',
  'FUSE_TRIPPED',
  'key_cap_exceeded',
])

/** The exit code for a problem document. */
export function exitCodeOfProblem(status: number, code: string): number {
  if (LIMIT_CODES.has(code) || status === 429) return 5
  if (status === 402) return 4
  return status === 401 || status === 403 ? 3 : 1
}

function codeOf(problem: unknown): string {
  const { code } = (typeof problem === 'object' && problem !== null ? problem : {}) as Json
  return typeof code === 'string' ? code : ''
}
