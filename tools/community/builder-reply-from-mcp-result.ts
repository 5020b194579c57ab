import type { SingleHopReply } from '../../providers/egress/egress-client-port.ts'
import { createBuilderStyleJsonReply } from './rest-operation-request-and-reply.ts'

/** Turns the result of an MCP tool into the answer of a builder. */

/** A tool that reports an error refuses the input: the protocol knows no other way to say so. */
export function toReplyOfMcpResult(
  url: string,
  result: Readonly<Record<string, unknown>>,
): SingleHopReply {
  const { content, structuredContent, isError } = result
  if (isError === true)
    return createBuilderStyleJsonReply({ url }, 422, 'application/problem+json', {
      detail: textOf(content),
    })
  return createBuilderStyleJsonReply({ url }, 200, 'application/json', {
    content: Array.isArray(content) ? content : [],
    ...(structuredContent === undefined ? {} : { structured_content: structuredContent }),
  })
}

function textOf(content: unknown): string {
  const [first] = Array.isArray(content) ? (content as unknown[]) : []
  const text = typeof first === 'object' && first !== null && 'text' in first ? first.text : null
  return typeof text === 'string' ? text : 'the tool reports an error'
}
