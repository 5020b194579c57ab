import { parseExactJson, toExactJson } from '../../../core/json/exact.ts'
import { toFiniteJson } from '../../../core/json/finite.ts'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { newPrefixedId } from '../../../core/ids-and-api-keys.ts'
import type { StationUrlAndApiKey } from '../agent/cli-station-url-and-key.ts'
import { toErrorMessage } from '../cli-output.ts'
import { readMcpAnswer, type JsonRpcMessage } from './read-mcp-answer.ts'

/** An MCP server on standard input and output that forwards every message to a station. */

type Id = string | number
type Json = Readonly<Record<string, unknown>>
type StationMcpAddress = StationUrlAndApiKey & { readonly path: string }

const MAX_ATTEMPTS = 4
const RETRY_MS = 250
/** A call whose connection broke runs on for at most this long; a model that is told of it calls again. */
const MAX_RUN_MS = 90_000
/** After the end of the input, answers that are still due are waited for this long. */
const LAST_ANSWERS_MS = 2_000
const IDEMPOTENCY_KEY = 'gas/idempotency_key'
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion'
const CODES = { parseError: -32_700, internalError: -32_603 } as const

/**
 * Forwards until the input ends. A call of a tool gets an idempotency key, so that one whose answer was lost
 * is repeated and charged once. Nothing but messages is written to `output`.
 */
export async function forwardMcpOverStdio(
  input: Readable,
  output: Writable,
  access: StationUrlAndApiKey,
  path = '/mcp',
): Promise<void> {
  const running = new Map<Id, AbortController>()
  const due = new Set<Promise<void>>()
  let legacyVersion: string | null = null
  const write = (message: JsonRpcMessage) => void output.write(`${toExactJson(message)}\n`)

  async function forward(message: JsonRpcMessage): Promise<void> {
    const { id } = message
    const control = new AbortController()
    if (id !== undefined) running.set(id, control)
    const send = (one: JsonRpcMessage) => {
      if (control.signal.aborted) return
      if (message.method === 'initialize') legacyVersion = versionIn(one) ?? legacyVersion
      write(one)
    }
    try {
      toFiniteJson(message)
      await exchange(
        { ...access, path },
        withIdempotencyKey(message),
        legacyVersion,
        control.signal,
        send,
      )
    } catch (error) {
      if (id !== undefined) send(toError(id, CODES.internalError, toErrorMessage(error)))
    } finally {
      if (id !== undefined) running.delete(id)
    }
  }

  for await (const line of createInterface({ input, crlfDelay: Infinity })) {
    if (line.trim() === '') continue
    const message = parseMessage(line)
    if (message === null) {
      write(toError(undefined, CODES.parseError, 'The line is not a JSON-RPC message.'))
    } else if (message.method === 'notifications/cancelled') {
      // Closing its request cancels a call.
      running.get(message.params?.['requestId'] as Id)?.abort()
    } else {
      const work = forward(message).finally(() => due.delete(work))
      due.add(work)
    }
  }
  const late = new AbortController()
  await Promise.race([
    Promise.all(due),
    delay(LAST_ANSWERS_MS, undefined, { signal: late.signal }).catch(() => {}),
  ])
  late.abort()
  for (const control of running.values()) control.abort()
}

/** The first request of a call runs on without its connection. */
class StillRunning extends Error {}

/** Sends a message until it is answered; each message of the answer goes to `send`. */
async function exchange(
  access: StationMcpAddress,
  message: JsonRpcMessage,
  legacyVersion: string | null,
  signal: AbortSignal,
  send: (message: JsonRpcMessage) => void,
): Promise<void> {
  let [attempt, waitedMs] = [1, 0]
  for (let isFirst = true; ; isFirst = false) {
    let isAnswered = false
    try {
      const asked = isFirst ? message : withoutProgress(message)
      const answers = readMcpAnswer(await post(access, asked, legacyVersion, signal), message.id)
      for await (const answer of answers) {
        if (!isFirst && isStillRunning(answer)) throw new StillRunning('The call is still running.')
        isAnswered ||= answer.id !== undefined
        send(answer)
      }
      if (isAnswered || message.id === undefined) return
      throw new Error(`${access.url} ended its answer too early.`)
    } catch (error) {
      if (signal.aborted || isAnswered) return
      const isRunning = error instanceof StillRunning
      if (isRunning ? waitedMs >= MAX_RUN_MS : attempt === MAX_ATTEMPTS) throw error
      const pause = RETRY_MS * attempt
      if (isRunning) waitedMs += pause
      else attempt += 1
      await delay(pause, undefined, { signal }).catch(() => {})
    }
  }
}

async function post(
  { url, apiKey, path }: StationMcpAddress,
  message: JsonRpcMessage,
  legacyVersion: string | null,
  signal: AbortSignal,
): Promise<Response> {
  const response = await fetch(`${url}${path}`, {
    method: 'POST',
    // A redirection would take the key to another place.
    redirect: 'manual',
    signal,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(apiKey === null ? {} : { 'x-api-key': apiKey.reveal() }),
      ...protocolHeaders(message, legacyVersion),
    },
    body: toExactJson(message),
  }).catch((error: unknown) => {
    throw new Error(`${url} does not answer: is the station running, and GAS_URL right?`, {
      cause: error,
    })
  })
  if (response.status >= 300 && response.status < 400)
    throw new Error(`${url} redirects to another address: set GAS_URL to it.`)
  return response
}

/** The headers that repeat the message over HTTP. */
function protocolHeaders(
  { method, params }: JsonRpcMessage,
  legacyVersion: string | null,
): Record<string, string> {
  const version = metaOf(params)[VERSION_KEY]
  if (typeof version !== 'string')
    return legacyVersion === null ? {} : { 'mcp-protocol-version': legacyVersion }
  const named = params?.['name'] ?? params?.['uri']
  return {
    'mcp-protocol-version': toHeaderValue(version),
    'mcp-method': toHeaderValue(String(method)),
    ...(typeof named === 'string' ? { 'mcp-name': toHeaderValue(named) } : {}),
  }
}

const toHeaderValue = (text: string): string =>
  /^[\x21-\x7e]+( +[\x21-\x7e]+)*$/.test(text) && !text.startsWith('=?base64?')
    ? text
    : `=?base64?${Buffer.from(text).toString('base64')}?=`

const metaOf = (params: Json | undefined): Json => (params?.['_meta'] ?? {}) as Json

const withMeta = (message: JsonRpcMessage, meta: Json): JsonRpcMessage => ({
  ...message,
  params: { ...message.params, _meta: meta },
})

function withIdempotencyKey(message: JsonRpcMessage): JsonRpcMessage {
  const meta = metaOf(message.params)
  if (message.method !== 'tools/call' || meta[IDEMPOTENCY_KEY] !== undefined) return message
  return withMeta(message, { ...meta, [IDEMPOTENCY_KEY]: newPrefixedId('mcp') })
}

/** Its steps were told already, and have to count up. */
function withoutProgress(message: JsonRpcMessage): JsonRpcMessage {
  const { progressToken: _told, ...meta } = metaOf(message.params)
  return _told === undefined ? message : withMeta(message, meta)
}

function isStillRunning({ result }: JsonRpcMessage): boolean {
  const problem = metaOf(result)['gas/problem'] as Json | undefined
  return problem?.['code'] === 'idempotency_in_flight'
}

function versionIn({ result }: JsonRpcMessage): string | null {
  const version = result?.['protocolVersion']
  return typeof version === 'string' ? version : null
}

function parseMessage(line: string): JsonRpcMessage | null {
  try {
    const value = parseExactJson(line)
    return typeof value === 'object' && value !== null ? (value as JsonRpcMessage) : null
  } catch {
    return null
  }
}

const toError = (id: Id | undefined, code: number, message: string): JsonRpcMessage => ({
  jsonrpc: '2.0',
  ...(id === undefined ? {} : { id }),
  error: { code, message },
})
