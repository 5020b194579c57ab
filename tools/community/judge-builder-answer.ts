import { findCostlyJson } from '../../core/json/cheap.ts'
import { parseExactJson, toExactJson } from '../../core/json/exact.ts'
import { createSecretRedactor } from '../../providers/egress/caller-secret-response-redactor.ts'
import { readMcpResult } from '../../providers/mcp/mcp-streamable-http-client.ts'
import { RESERVED_COMMUNITY_OUTPUT_FIELDS } from '../../domain/community-tool-record.ts'
import type { ValidationIssue } from '../../core/validation/validation-errors.ts'
import type { SchemaValidator } from '../schema-validator.ts'
import {
  parseAnswerJson,
  type BuilderAnswer,
  type BuilderReply,
  type BuilderVerdict,
} from './builder-answer.ts'
import { toAnswerOfMcpResult } from './builder-reply-from-mcp-result.ts'
import { toAnswerOfRestResponse } from './rest-operation-request-and-reply.ts'

/** Judges what a builder answers; runs in a worker process, since all of it is a stranger's (decision 383). */

/** Throws the `ServiceError` of an MCP server that gives no result. */
export function judgeBuilderReply(
  reply: BuilderReply,
  validateOutput: SchemaValidator,
): BuilderVerdict {
  const { redactText } = createSecretRedactor(reply.secrets)
  const answer = readAnswer(reply)
  if (answer.type === 'refused') return { type: 'refused', words: redactText(answer.words) }
  if (answer.type !== 'value') return answer
  const text = answer.text ?? toExactJson(answer.value)
  // Schemas know numbers only.
  const said = findFault(answer.value, () => validateOutput(JSON.parse(text)))
  return said === null ? { type: 'good', text: redactText(text) } : { type: 'invalid', said }
}

function readAnswer(reply: BuilderReply): BuilderAnswer {
  if (reply.kind === 'rest-operation') return toAnswerOfRestResponse(reply)
  if (reply.kind === 'mcp-tool') return toAnswerOfMcpResult(readMcpResult(reply, parseExactJson))
  const { status, contentType } = reply
  if (status === 422 && /^application\/problem\+json\b/i.test(contentType)) {
    const problem = parseAnswerJson(reply.body)
    const { detail, title } = (typeof problem === 'object' ? (problem?.value ?? {}) : {}) as {
      detail?: unknown
      title?: unknown
    }
    const words = detail ?? title
    return { type: 'refused', words: typeof words === 'string' ? words : '' }
  }
  if (status < 200 || status > 299) return { type: 'status', status }
  return parseAnswerJson(reply.body) ?? { type: 'invalid', said: 'the answer is no JSON' }
}

/** What is wrong with an answer, for its builder; null for nothing. */
function findFault(value: unknown, validate: () => readonly ValidationIssue[]): string | null {
  const costly = findCostlyJson(value)
  if (costly !== null) return `the answer has ${costly}`
  const odd = findUndeliverable(value)
  if (odd !== null) return odd
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return 'the answer is no JSON object'
  const taken = RESERVED_COMMUNITY_OUTPUT_FIELDS.find((name) => Object.hasOwn(value, name))
  if (taken !== undefined) return `the answer has the field ${taken}, which the station adds`
  const [issue] = validate()
  return issue === undefined ? null : `${issue.pointer || 'the answer'} ${issue.detail}`
}

/** A value that a caller would not get as it was checked: `1e999` is parsed as a number that JSON writes as null. */
function findUndeliverable(value: unknown): string | null {
  const open: unknown[] = [value]
  while (open.length > 0) {
    const one = open.pop()
    if (typeof one === 'number' && !Number.isFinite(one))
      return 'the answer has a number that JSON cannot hold'
    if (typeof one !== 'object' || one === null) continue
    if (Object.hasOwn(one, '__proto__')) return 'the answer has a field __proto__'
    for (const inner of Object.values(one)) open.push(inner)
  }
  return null
}
