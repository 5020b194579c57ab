import answers from './answer-examples.json' with { type: 'json' }
import toolAnswers from './tool-answer-examples.json' with { type: 'json' }
import type { OpenApiDocument } from './openapi-document-types.ts'

/**
 * Examples of answers: those of a station to the examples of requests, with lists and texts shortened. A test
 * compares them with what a station answers; with `ANSWER_EXAMPLES=write` it writes them.
 */

const ANSWERS: Readonly<Record<string, unknown>> = answers
/** By tool, the answers to the first example of each. */
const TOOL_ANSWERS: Readonly<Record<string, unknown>> = toolAnswers

/** Adds an example to each success of the operations that answer JSON. */
export function addOpenApiAnswerExamples({ paths }: OpenApiDocument): void {
  for (const item of Object.values(paths))
    for (const { operationId, responses, 'x-tool': tool } of Object.values(item)) {
      const { slug = '' } = (tool ?? {}) as { readonly slug?: string }
      const example = ANSWERS[operationId] ?? TOOL_ANSWERS[slug]
      if (example === undefined) continue
      for (const [status, response] of Object.entries(responses)) {
        if (status >= '300' || '$ref' in response) continue
        const media = response.content?.['application/json']
        if (media !== undefined) media.example = example
      }
    }
}
