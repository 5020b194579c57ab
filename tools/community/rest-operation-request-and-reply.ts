import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { toExactJson } from '../../core/json/exact.ts'
import type { CommunityToolEndpoint, RestParameter } from '../../domain/community-tool-record.ts'
import { isForbiddenRequestHeader } from '../import/forbidden-request-headers.ts'
import {
  parseAnswerJson,
  type BuilderAnswer,
  type BuilderReply,
  type BuilderVerdict,
} from './builder-answer.ts'
import { toHeaderText, toPathPart, toQueryPart } from './rest-parameter-styles.ts'

/** Builds the request of a REST operation from an input, and the output from its answer. */

type RestOperation = Extract<CommunityToolEndpoint, { kind: 'rest-operation' }>
type Input = Readonly<Record<string, unknown>>

export interface RestRequest {
  readonly url: string
  readonly method: RestOperation['method']
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/
/** Of a parsed URL; dots alone would leave the path. */
const DOT_SEGMENT = /^(?:\.|%2e){1,2}$/i
/** The input was wrong in the eyes of the server. */
const CALLER_FAULTS = new Set([400, 404, 409, 410, 412, 422])

/** The request, or the refusal of an input that cannot be a part of one. */
export function toRestRequestOrRefusal(
  forward: RestOperation,
  input: Input,
): RestRequest | Extract<BuilderVerdict, { type: 'refused' }> {
  try {
    return buildRestRequest(forward, input)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    return { type: 'refused', words: error.message }
  }
}

/** Throws `invalid_input` for values that cannot be a part of the request. */
function buildRestRequest(forward: RestOperation, input: Input): RestRequest {
  const base = new URL(forward.url)
  const url = new URL(base.origin)
  url.pathname = `${base.pathname.replace(/\/+$/, '')}${fillPath(forward, input)}`
  const headers: Record<string, string> = { accept: 'application/json' }
  const query: string[] = []
  for (const parameter of forward.parameters) {
    const value = input[parameter.field]
    if (value === undefined || value === null || parameter.in === 'path') continue
    if (parameter.in === 'query') query.push(toQueryPart(parameter, value))
    else if (!isForbiddenRequestHeader(parameter.name))
      headers[parameter.name.toLowerCase()] = toHeaderValue(parameter, value)
  }
  url.search = query.filter((part) => part !== '').join('&')
  if (!forward.hasBody || input['body'] === undefined)
    return { url: url.href, method: forward.method, headers }
  headers['content-type'] = 'application/json'
  return { url: url.href, method: forward.method, headers, body: JSON.stringify(input['body']) }
}

/** Each value is one encoded segment, or a part of one. */
function fillPath({ path, parameters }: RestOperation, input: Input): string {
  const filled = path.replace(/\{([^{}]+)\}/g, (_, name: string) => {
    const parameter = parameters.find((one) => one.in === 'path' && one.name === name)
    const value = parameter === undefined ? undefined : input[parameter.field]
    const text =
      parameter === undefined || value === undefined || value === null || value === ''
        ? ''
        : toPathPart(parameter, value)
    if (text === '') throw invalidInputError(`/${parameter?.field ?? name}`, 'must not be empty')
    return text
  })
  if (filled.split('/').some((segment) => DOT_SEGMENT.test(segment)))
    throw invalidInputError('', 'has a path value of dots only')
  return filled
}

function toHeaderValue(parameter: RestParameter, value: unknown): string {
  const text = toHeaderText(parameter, value)
  if (HEADER_VALUE.test(text) && text.length <= 4_096) return text
  throw invalidInputError(`/${parameter.field}`, 'is not a header value')
}

/** Returns the answer as a builder of JSON would give it: `{status, data}`, or the refusal of an input. */
export function toAnswerOfRestResponse(
  reply: Pick<BuilderReply, 'status' | 'contentType' | 'body'>,
): BuilderAnswer {
  const { status } = reply
  const data = readData(reply)
  if (status >= 200 && status <= 299) return { type: 'value', value: { status, data } }
  if (!CALLER_FAULTS.has(status)) return { type: 'status', status }
  const words = typeof data === 'string' ? data : toExactJson(data)
  return { type: 'refused', words: `it answers ${status} ${words}`.trim() }
}

function readData({ contentType, body }: Pick<BuilderReply, 'contentType' | 'body'>): unknown {
  if (body.length === 0) return null
  const parsed = /\bjson\b/i.test(contentType) ? parseAnswerJson(body) : null
  return parsed === null ? Buffer.from(body).toString('utf8') : parsed.value
}
