import type { BuilderAnswer } from './builder-answer.ts'

/** Turns the result of an MCP tool into the answer of a builder. */

/** A tool that reports an error refuses the input: the protocol knows no other way to say so. */
export function toAnswerOfMcpResult(result: Readonly<Record<string, unknown>>): BuilderAnswer {
  const { content, structuredContent, isError } = result
  if (isError === true) return { type: 'refused', words: textOf(content) }
  return {
    type: 'value',
    value: {
      content: Array.isArray(content) ? content : [],
      ...(structuredContent === undefined ? {} : { structured_content: structuredContent }),
    },
  }
}

function textOf(content: unknown): string {
  const [first] = Array.isArray(content) ? (content as unknown[]) : []
  const text = typeof first === 'object' && first !== null && 'text' in first ? first.text : null
  return typeof text === 'string' ? text : 'the tool reports an error'
}
