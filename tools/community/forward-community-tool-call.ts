import { ServiceError } from '../../core/errors.ts'
import { SECOND } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { hmacSha256 } from '../../core/key-derivation-and-encryption.ts'
import { signWebhook } from '../../core/webhook-signature.ts'
import type { CommunityToolRecord } from '../../domain/community-tool-record.ts'
import {
  createSecretRedactor,
  type SecretRedactor,
} from '../../providers/egress/caller-secret-response-redactor.ts'
import {
  RequestNotSentError,
  type EgressClient,
  type SingleHopReply,
  type SingleHopRequest,
} from '../../providers/egress/egress-client-port.ts'
import { callRemoteMcpTool } from '../../providers/mcp/mcp-streamable-http-client.ts'
import { toReplyOfMcpResult } from './builder-reply-from-mcp-result.ts'
import {
  toBuilderReplyOfRestResponse,
  toRestRequestOrRefusal,
} from './rest-operation-request-and-reply.ts'
import type { ValidationIssue } from '../../core/validation/validation-errors.ts'

/**
 * Sends a call to the builder of a tool, signed, and judges the answer. The builder sees a pseudonym of the
 * caller, never its key, address or headers.
 */

/** Fields that the station adds to every answer of a tool. */
export const RESERVED_COMMUNITY_OUTPUT_FIELDS = [
  'echo_recycled',
  'ghost_protocol',
  'hive',
  '_meta',
] as const

/** A call as its builder gets it. */
export interface CommunityCall {
  readonly callId: string
  readonly callerId: string
  readonly input: Record<string, unknown>
  readonly signal: AbortSignal
}

/** `detail` is for the builder: what was wrong with the answer, without data of the caller. */
export type CommunityCallOutcome =
  | { readonly ok: true; readonly output: Record<string, unknown> }
  | {
      readonly ok: false
      readonly error: ServiceError
      readonly detail: string
      /** The builder refused the input with a problem document. */
      readonly isCallersFault: boolean
    }

/** Resolves for every answer; rejects only with the reason of an aborted signal. */
export type CommunityCallForwarder = (
  tool: CommunityToolRecord,
  call: CommunityCall,
  validateOutput: (output: unknown) => readonly ValidationIssue[],
) => Promise<CommunityCallOutcome>

export interface CommunityForwarderDeps {
  readonly egress: Pick<EgressClient, 'sendSingleHop'>
  /** Makes the secrets and pseudonyms of builders; the same on all nodes (purpose `builders`). */
  readonly key: Buffer
  readonly now: () => number
  /** The time of a whole call, connection and answer. */
  readonly callMs: number
  /** Credentials of services that were imported, each for one origin. */
  readonly credentials: {
    find(
      builderId: string,
      origin: string,
    ): Promise<{ readonly header: string; readonly value: string } | null>
  }
}

/** The secret that signs the calls of a tool; a new number makes another one. */
export const deriveCommunityToolSigningSecret = (
  key: Buffer,
  { toolId, secretNumber }: Pick<CommunityToolRecord, 'toolId' | 'secretNumber'>,
): string =>
  `whsec_${hmacSha256(key, JSON.stringify(['secret', toolId, secretNumber])).toString('base64')}`

/** The name of a caller for one builder; other builders get another one. */
const callerPseudonym = (key: Buffer, builderId: string, callerId: string): string =>
  `caller_${hmacSha256(key, JSON.stringify(['caller', builderId, callerId]))
    .toString('base64url')
    .slice(0, 22)}`

export function createCommunityCallForwarder(deps: CommunityForwarderDeps): CommunityCallForwarder {
  return async (tool, call, validateOutput) => {
    try {
      return judgeAnswer(tool, await sendCall(deps, tool, call), validateOutput)
    } catch (error) {
      if (call.signal.aborted) throw call.signal.reason
      return toFailure(tool, error, deps.callMs)
    }
  }
}

/** Sends the call in the form that the address of the tool speaks; every answer has the form of JSON builders. */
async function sendCall(
  deps: CommunityForwarderDeps,
  tool: CommunityToolRecord,
  call: CommunityCall,
): Promise<SingleHopReply> {
  const { forward } = tool.definition
  if (forward.kind === 'http-json') {
    const body = JSON.stringify(call.input)
    return sendOnce(deps, call, {
      url: forward.url,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        ...communityCallHeaders(deps, tool, call, body),
      },
      body,
    })
  }
  const credential = await deps.credentials.find(tool.builderId, new URL(forward.url).origin)
  const own: Record<string, string> =
    credential === null ? {} : { [credential.header]: credential.value }
  const redactor = createSecretRedactor(credential === null ? [] : secretsOf(credential.value))
  return forward.kind === 'mcp-tool'
    ? sendToMcpServer(deps, tool, call, own, redactor)
    : sendToRestService(deps, tool, call, own, redactor)
}

const sendOnce = (
  { egress, callMs }: CommunityForwarderDeps,
  { signal }: CommunityCall,
  request: Pick<SingleHopRequest, 'url' | 'method' | 'headers' | 'body'>,
): Promise<SingleHopReply> =>
  egress.sendSingleHop({
    ...request,
    maxBytes: LIMITS.communityAnswerBytes,
    timeoutMs: callMs,
    signal,
  })

/** A credential may come back whole, or without the name of its scheme. */
const secretsOf = (value: string): string[] => [value, ...value.split(/\s+/).slice(1)]

async function sendToRestService(
  deps: CommunityForwarderDeps,
  tool: CommunityToolRecord,
  call: CommunityCall,
  own: Readonly<Record<string, string>>,
  redactor: SecretRedactor,
): Promise<SingleHopReply> {
  const { forward } = tool.definition
  if (forward.kind !== 'rest-operation') throw new TypeError('no REST operation')
  const request = toRestRequestOrRefusal(forward, call.input)
  if ('status' in request) return request
  const signed = communityCallHeaders(deps, tool, call, request.body ?? '')
  const headers = { ...request.headers, ...signed, ...own }
  const reply = await sendOnce(deps, call, { ...request, headers })
  return toBuilderReplyOfRestResponse({ ...reply, body: redactor.redactBytes(reply.body) })
}

async function sendToMcpServer(
  deps: CommunityForwarderDeps,
  tool: CommunityToolRecord,
  call: CommunityCall,
  own: Readonly<Record<string, string>>,
  redactor: SecretRedactor,
): Promise<SingleHopReply> {
  const { forward } = tool.definition
  if (forward.kind !== 'mcp-tool') throw new TypeError('no MCP tool')
  const connection = {
    url: forward.url,
    headers: { ...communityCallHeaders(deps, tool, call, ''), ...own },
    maxBytes: LIMITS.communityAnswerBytes,
    timeoutMs: deps.callMs,
    signal: call.signal,
  }
  const result = await callRemoteMcpTool(deps.egress, connection, forward.tool, call.input)
  const answer = toReplyOfMcpResult(forward.url, result)
  return { ...answer, body: redactor.redactBytes(answer.body) }
}

/** Standard Webhooks headers, the id of the call and the pseudonym of its caller. */
function communityCallHeaders(
  { key, now }: Pick<CommunityForwarderDeps, 'key' | 'now'>,
  tool: CommunityToolRecord,
  { callId, callerId }: Pick<CommunityCall, 'callId' | 'callerId'>,
  body: string,
): Record<string, string> {
  const timestamp = Math.floor(now() / 1_000)
  const secret = deriveCommunityToolSigningSecret(key, tool)
  return {
    'webhook-id': callId,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signWebhook([secret], { id: callId, timestamp, body }),
    'x-call-id': callId,
    'x-caller': callerPseudonym(key, tool.builderId, callerId),
    'x-tool': tool.slug,
  }
}

function judgeAnswer(
  tool: CommunityToolRecord,
  { status, headers, body }: SingleHopReply,
  validateOutput: (output: unknown) => readonly ValidationIssue[],
): CommunityCallOutcome {
  const type = headers['content-type'] ?? ''
  if (status === 422 && /^application\/problem\+json\b/i.test(type))
    return refusedByBuilder(tool, body)
  if (status < 200 || status > 299) {
    const error = new ServiceError('upstream_error', {
      provider: tool.slug,
      upstream_status: status,
    })
    const hint = status >= 300 && status < 400 ? '; redirects are not followed' : ''
    return failure(error, `answered ${status}${hint}`)
  }
  const parsed = parseJsonObject(body)
  if (typeof parsed === 'string') return failure(invalidOutput(tool, parsed), parsed)
  const [issue] = validateOutput(parsed)
  if (issue === undefined) return { ok: true, output: parsed }
  // The words of the schema, never those of the answer: it may repeat the input.
  const said = `${issue.pointer || 'the answer'} ${issue.detail}`
  return failure(invalidOutput(tool, said), said)
}

const failure = (
  error: ServiceError,
  detail: string,
  isCallersFault = false,
): CommunityCallOutcome => ({ ok: false, error, detail: detail.slice(0, 300), isCallersFault })

const invalidOutput = ({ slug }: CommunityToolRecord, detail: string): ServiceError =>
  new ServiceError('tool_output_invalid', {
    tool: slug,
    detail: `The answer of the builder is not valid: ${detail}. Nothing was charged.`,
  })

function refusedByBuilder(tool: CommunityToolRecord, body: Buffer): CommunityCallOutcome {
  const problem = parseJsonObject(body)
  const said = typeof problem === 'string' ? undefined : (problem['detail'] ?? problem['title'])
  const words = typeof said === 'string' ? toPlainText(said) : ''
  const detail = `The builder of ${tool.slug} refuses this input${words === '' ? '' : `: ${words}`}. Nothing was charged.`
  return failure(
    new ServiceError('builder_refused', { tool: tool.slug, detail }),
    'answered 422',
    true,
  )
}

/** Texts of strangers: one line without control characters. */
const toPlainText = (text: string): string =>
  text
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim()
    .slice(0, 300)

/** May be the name `__proto__`, also spelled with escapes. */
const SUSPECT = /proto|\\u00/i

/** Returns the object, or why it is none. */
function parseJsonObject(body: Buffer): Record<string, unknown> | string {
  const text = body.toString('utf8')
  let hasProto = false
  const look = (name: string, inner: unknown): unknown => {
    if (name === '__proto__') hasProto = true
    return inner
  }
  try {
    const value: unknown = SUSPECT.test(text) ? JSON.parse(text, look) : JSON.parse(text)
    if (hasProto) return 'the answer has a field __proto__'
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      return 'the answer is no JSON object'
    const taken = RESERVED_COMMUNITY_OUTPUT_FIELDS.find((name) => Object.hasOwn(value, name))
    if (taken !== undefined) return `the answer has the field ${taken}, which the station adds`
    return value as Record<string, unknown>
  } catch {
    return 'the answer is no JSON'
  }
}

/** The failure without the address of the builder, which callers do not know. */
function toFailure(
  { slug }: CommunityToolRecord,
  error: unknown,
  callMs: number,
): CommunityCallOutcome {
  const reason = error instanceof RequestNotSentError ? error.reason : error
  if (!(reason instanceof ServiceError)) throw error
  const { code, details } = reason
  switch (code) {
    case 'upstream_timeout':
      return failure(
        new ServiceError(code, { provider: slug }, reason),
        `did not answer within ${callMs / SECOND} seconds`,
      )
    case 'response_too_large':
      return failure(
        new ServiceError(code, { tool: slug, limit_bytes: LIMITS.communityAnswerBytes }, reason),
        `answered more than ${LIMITS.communityAnswerBytes} bytes`,
      )
    case 'blocked_url':
      return failure(
        new ServiceError('upstream_error', { provider: slug, reason: 'blocked_url' }, reason),
        'its address may not be called: it is not public',
      )
    default: {
      const why = typeof details['reason'] === 'string' ? details['reason'] : code
      return failure(
        new ServiceError('upstream_error', { provider: slug, reason: why }, reason),
        `could not be called (${why})`,
      )
    }
  }
}
