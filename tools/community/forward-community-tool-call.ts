import { withoutInvisibles } from '../../core/comparable-text.ts'
import { parseExactJson } from '../../core/json/exact.ts'
import { ServiceError } from '../../core/errors.ts'
import { SECOND } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import { hmacSha256 } from '../../core/key-derivation-and-encryption.ts'
import { signWebhook } from '../../core/webhook-signature.ts'
import type { CommunityToolRecord } from '../../domain/community-tool-record.ts'
import {
  RequestNotSentError,
  type EgressClient,
  type SingleHopReply,
  type SingleHopRequest,
} from '../../providers/egress/egress-client-port.ts'
import { callRemoteMcpTool } from '../../providers/mcp/mcp-streamable-http-client.ts'
import type { BuilderReply, BuilderVerdict } from './builder-answer.ts'
import { toRestRequestOrRefusal } from './rest-operation-request-and-reply.ts'
import { schemaTextOf, type UntrustedWork } from './untrusted-work-pool.ts'

/**
 * Sends a call to the builder of a tool, signed, and judges the answer. The builder sees a pseudonym of the
 * caller, never its key, address or headers.
 */

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
) => Promise<CommunityCallOutcome>

export interface CommunityForwarderDeps {
  readonly egress: Pick<EgressClient, 'sendSingleHop'>
  /** Reads the answers. */
  readonly work: Pick<UntrustedWork, 'judge'>
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
  return async (tool, call) => {
    try {
      const answer = await sendCall(deps, tool, call)
      const schema = schemaTextOf(tool.definition.outputSchema)
      const verdict =
        'type' in answer ? answer : await deps.work.judge(tool.builderId, schema, answer)
      return toOutcome(tool, verdict)
    } catch (error) {
      if (call.signal.aborted) throw call.signal.reason
      return toFailure(tool, error, deps.callMs)
    }
  }
}

/** Sends the call in the form that the address of the tool speaks. Some inputs are refused before anything is sent. */
async function sendCall(
  deps: CommunityForwarderDeps,
  tool: CommunityToolRecord,
  call: CommunityCall,
): Promise<BuilderReply | Extract<BuilderVerdict, { type: 'refused' }>> {
  const { forward } = tool.definition
  if (forward.kind === 'http-json') {
    const body = JSON.stringify(call.input)
    const headers = {
      'content-type': 'application/json',
      accept: 'application/json',
      ...communityCallHeaders(deps, tool, call, body),
    }
    const reply = await sendOnce(deps, call, { url: forward.url, method: 'POST', headers, body })
    return toReply(forward.kind, reply, null)
  }
  const credential = await deps.credentials.find(tool.builderId, new URL(forward.url).origin)
  return forward.kind === 'mcp-tool'
    ? sendToMcpServer(deps, tool, call, credential)
    : sendToRestService(deps, tool, call, credential)
}

type Credential = Awaited<ReturnType<CommunityForwarderDeps['credentials']['find']>>

const toReply = (
  kind: BuilderReply['kind'],
  { status, headers, body }: SingleHopReply,
  credential: Credential,
): BuilderReply => ({
  kind,
  id: 0,
  status,
  contentType: headers['content-type'] ?? '',
  body,
  secrets: secretsOf(credential),
})

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
const secretsOf = (credential: Credential): string[] =>
  credential === null ? [] : [credential.value, ...credential.value.split(/\s+/).slice(1)]

const headersOf = (credential: Credential): Record<string, string> =>
  credential === null ? {} : { [credential.header]: credential.value }

async function sendToRestService(
  deps: CommunityForwarderDeps,
  tool: CommunityToolRecord,
  call: CommunityCall,
  credential: Credential,
): Promise<BuilderReply | Extract<BuilderVerdict, { type: 'refused' }>> {
  const { forward } = tool.definition
  if (forward.kind !== 'rest-operation') throw new TypeError('no REST operation')
  const request = toRestRequestOrRefusal(forward, call.input)
  if ('type' in request) return request
  const signed = communityCallHeaders(deps, tool, call, request.body ?? '')
  const headers = { ...request.headers, ...signed, ...headersOf(credential) }
  return toReply(forward.kind, await sendOnce(deps, call, { ...request, headers }), credential)
}

async function sendToMcpServer(
  deps: CommunityForwarderDeps,
  tool: CommunityToolRecord,
  call: CommunityCall,
  credential: Credential,
): Promise<BuilderReply> {
  const { forward } = tool.definition
  if (forward.kind !== 'mcp-tool') throw new TypeError('no MCP tool')
  const connection = {
    url: forward.url,
    headers: { ...communityCallHeaders(deps, tool, call, ''), ...headersOf(credential) },
    maxBytes: LIMITS.communityAnswerBytes,
    timeoutMs: deps.callMs,
    signal: call.signal,
  }
  const reply = await callRemoteMcpTool(deps.egress, connection, forward.tool, call.input)
  return { ...reply, kind: forward.kind, secrets: secretsOf(credential) }
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

function toOutcome(tool: CommunityToolRecord, verdict: BuilderVerdict): CommunityCallOutcome {
  switch (verdict.type) {
    case 'good':
      return { ok: true, output: parseExactJson(verdict.text) as Record<string, unknown> }
    case 'refused':
      return refusedByBuilder(tool, verdict.words)
    case 'invalid':
      return failure(invalidOutput(tool, verdict.said), verdict.said)
    case 'status': {
      const { status } = verdict
      const hint = status >= 300 && status < 400 ? '; redirects are not followed' : ''
      const details = { provider: tool.slug, upstream_status: status }
      return failure(new ServiceError('upstream_error', details), `answered ${status}${hint}`)
    }
  }
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

function refusedByBuilder({ slug }: CommunityToolRecord, said: string): CommunityCallOutcome {
  const words = toOneLine(said)
  const detail = `The builder of ${slug} refuses this input${words === '' ? '' : `: ${words}`}. Nothing was charged.`
  return failure(new ServiceError('builder_refused', { tool: slug, detail }), 'answered 422', true)
}

/** Texts of strangers: one line without control characters. */
const toOneLine = (text: string): string =>
  withoutInvisibles(text.slice(0, 2_000))
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .trim()
    .slice(0, 300)

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
    // The station has no place to read the answer: nobody's fault.
    case 'unavailable':
      return failure(
        new ServiceError('upstream_error', { provider: slug, reason: 'station_busy' }, reason),
        'its answer was not read',
        true,
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
