import Type, { type Static } from 'typebox'
import { Compile } from 'typebox/compile'
import { ServiceError } from '../../core/errors.ts'
import type {
  StreamedUpstreamReply,
  StreamingPostClient,
} from '../upstream/streaming-post-client.ts'
import { parseSseData, decodeTextChunks } from './sse-parser.ts'
import type { LlmRequest } from './llm-port.ts'
import type { LlmModelSettings, LlmProvider } from './llm-provider-settings.ts'

/** A model of a provider. */
export interface LlmProviderModel {
  readonly provider: LlmProvider
  readonly model: LlmModelSettings
}

export interface StreamedTokenTimeouts {
  /** Until the first token. */
  readonly firstTokenMs: number
  /** Between two chunks. */
  readonly betweenTokensMs: number
}

/** Receives a completion as it streams. */
export interface LlmCompletionStreamListener {
  /** Called with each chunk of text. */
  onToken(delta: string): void
  /** Called with the usage when the response ends, whether it is readable or not. */
  onUsage(usage: CompletionUsage): void
}

const CompletionUsage = Type.Object({
  prompt_tokens: Type.Integer({ minimum: 0 }),
  completion_tokens: Type.Integer({ minimum: 0 }),
  /** USD; only some providers return it. */
  cost: Type.Optional(Type.Union([Type.Number({ minimum: 0 }), Type.Null()])),
})
export type CompletionUsage = Static<typeof CompletionUsage>
const UsageBody = Compile(Type.Object({ usage: CompletionUsage }))

const ContentPart = Type.Object({
  content: Type.Optional(Type.Union([Type.String(), Type.Null()])),
})
const CompletionChunk = Type.Object({
  choices: Type.Array(
    Type.Object({
      delta: Type.Optional(ContentPart),
      message: Type.Optional(ContentPart),
      finish_reason: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    }),
  ),
  usage: Type.Optional(Type.Union([CompletionUsage, Type.Null()])),
})
const CompletionChunkValidator = Compile(CompletionChunk)

const FIXTURE_HEADER = 'x-fixture'
/** Far above 4,000 tokens with all metadata of a provider. */
const MAX_COMPLETION_BYTES = 4 * 1024 * 1024

/**
 * Requests a completion from an OpenAI-compatible `/chat/completions`: a stream with its usage at the end, or
 * plain JSON from a provider without streaming. Text goes to `listener`; an error after the first token
 * leaves a partial text. Errors carry `upstream_status` and `retry_after_header`.
 */
export async function requestChatCompletion(
  postClient: StreamingPostClient,
  { provider, model }: LlmProviderModel,
  request: LlmRequest,
  timeouts: StreamedTokenTimeouts,
  signal: AbortSignal,
  listener: LlmCompletionStreamListener,
): Promise<{ readonly mode: 'live' | 'fixture' }> {
  const details = { provider: provider.id, model: model.id }
  const watch = createWatchdog(signal, details)
  try {
    watch.within(timeouts.firstTokenMs)
    const reply = await postClient.post({
      url: `${provider.baseUrl}/chat/completions`,
      headers: headersOf(provider),
      body: bodyOf(model, request),
      signal: watch.signal,
      details,
    })
    if (reply.status !== 200) throw await toUpstreamRefusal(reply, details)
    const mode = FIXTURE_HEADER in reply.headers ? 'fixture' : 'live'
    const streams = (reply.headers['content-type'] ?? '').includes('text/event-stream')
    const alive: LlmCompletionStreamListener = {
      onToken(delta) {
        watch.within(timeouts.betweenTokensMs)
        if (delta !== '') listener.onToken(delta)
      },
      onUsage: (usage) => listener.onUsage(usage),
    }
    await (streams ? readStream : readJsonReply)(reply, details, alive)
    return { mode }
  } catch (error) {
    if (watch.signal.aborted) throw watch.signal.reason
    if (error instanceof ServiceError) throw error
    throw new ServiceError('upstream_error', { ...details, reason: 'connection_lost' }, error)
  } finally {
    watch.stop()
  }
}

const headersOf = ({ key }: LlmProvider): Record<string, string> => ({
  accept: 'text/event-stream, application/json',
  ...(key === null ? {} : { authorization: `Bearer ${key.reveal()}` }),
})

function bodyOf(model: LlmModelSettings, request: LlmRequest): Record<string, unknown> {
  const { prompt, maxTokens, temperature, schema } = request
  const form =
    schema === undefined
      ? []
      : [
          `Answer with one JSON value of this JSON schema and nothing else: ${JSON.stringify(schema)}`,
        ]
  const system = [...(request.system === undefined ? [] : [request.system]), ...form].join('\n\n')
  return {
    model: model.id,
    messages: [
      ...(system === '' ? [] : [{ role: 'system', content: system }]),
      { role: 'user', content: prompt },
    ],
    [model.token_limit ?? 'max_tokens']: maxTokens,
    ...(temperature === undefined ? {} : { temperature }),
    ...(schema === undefined ? {} : { response_format: { type: 'json_object' } }),
    stream: true,
    stream_options: { include_usage: true },
  }
}

async function toUpstreamRefusal(
  reply: StreamedUpstreamReply,
  details: Record<string, unknown>,
): Promise<ServiceError> {
  const { status, headers } = reply
  // The body is not forwarded, since it may quote the key. Reading it frees the connection.
  await discardReply(reply)
  const limited = status === 429 || (status === 503 && headers['retry-after'] !== undefined)
  return new ServiceError(limited ? 'upstream_rate_limited' : 'upstream_error', {
    ...details,
    upstream_status: status,
    ...(limited ? { retry_after_header: headers['retry-after'] ?? null } : {}),
  })
}

async function discardReply({ body }: StreamedUpstreamReply): Promise<void> {
  const pieces = decodeTextChunks(body, 64 * 1024)
  try {
    while ((await pieces.next()).done !== true);
  } catch {
    // The status suffices.
  }
}

async function readStream(
  reply: StreamedUpstreamReply,
  details: Record<string, unknown>,
  listener: LlmCompletionStreamListener,
): Promise<void> {
  let ended = false
  let usage: CompletionUsage | null = null
  for await (const data of parseSseData(reply.body, MAX_COMPLETION_BYTES)) {
    ended ||= data === '[DONE]'
    const piece = data === '[DONE]' ? null : parseCompletionChunk(parse(data, details), details)
    const [choice] = piece?.choices ?? []
    usage = piece?.usage ?? usage
    ended ||= typeof choice?.finish_reason === 'string'
    // Some providers send a running count with every chunk; only the last one is billed.
    if (ended && usage !== null) listener.onUsage(usage)
    if (data === '[DONE]') return
    listener.onToken(choice?.delta?.content ?? '')
  }
  if (!ended) throw new ServiceError('upstream_error', { ...details, reason: 'cut_off' })
}

async function readJsonReply(
  reply: StreamedUpstreamReply,
  details: Record<string, unknown>,
  listener: LlmCompletionStreamListener,
): Promise<void> {
  let body = ''
  for await (const piece of decodeTextChunks(reply.body, MAX_COMPLETION_BYTES)) body += piece
  const value = parse(body, details)
  if (UsageBody.Check(value)) listener.onUsage(value.usage)
  const text = parseCompletionChunk(value, details).choices[0]?.message?.content
  if (typeof text !== 'string') throw new ServiceError('upstream_schema', details)
  listener.onToken(text)
}

function parse(data: string, details: Record<string, unknown>): unknown {
  try {
    return JSON.parse(data)
  } catch (cause) {
    throw new ServiceError('upstream_schema', { ...details, detail: 'not JSON' }, cause)
  }
}

function parseCompletionChunk(
  value: unknown,
  details: Record<string, unknown>,
): Static<typeof CompletionChunk> {
  // An error within a stream arrives as a chunk.
  if (typeof value === 'object' && value !== null && 'error' in value)
    throw new ServiceError('upstream_error', { ...details, reason: 'said_error' })
  if (!CompletionChunkValidator.Check(value)) throw new ServiceError('upstream_schema', details)
  return value
}

/** Creates a signal that aborts with the given one, or when nothing arrives within the last granted time. */
function createWatchdog(signal: AbortSignal, details: Record<string, unknown>) {
  const end = new AbortController()
  const leave = () => end.abort(signal.reason)
  if (signal.aborted) leave()
  signal.addEventListener('abort', leave)
  let timer: NodeJS.Timeout | undefined
  return {
    signal: end.signal,
    within(ms: number) {
      clearTimeout(timer)
      timer = setTimeout(() => end.abort(new ServiceError('upstream_timeout', details)), ms)
    },
    stop() {
      clearTimeout(timer)
      signal.removeEventListener('abort', leave)
    },
  }
}
