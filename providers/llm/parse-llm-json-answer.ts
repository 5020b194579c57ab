import type { TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import { ServiceError } from '../../core/errors.ts'
import type { LlmRequest } from './llm-port.ts'

/** Parses the JSON answer of a model. */

const validators = new WeakMap<TSchema, Validator>()

/**
 * Returns the requested JSON, also from a Markdown fence; null when none was requested. Throws
 * `upstream_schema`.
 */
export function parseJsonAnswer({ schema }: LlmRequest, text: string, model: string): unknown {
  if (schema === undefined) return null
  const validator = validators.get(schema) ?? Compile(schema)
  validators.set(schema, validator)
  const bare = text.trim().replace(/^```(?:json)?\s*|\s*```$/g, '')
  let value: unknown
  try {
    value = JSON.parse(bare)
  } catch (cause) {
    throw new ServiceError('upstream_schema', { model, detail: 'The answer is not JSON.' }, cause)
  }
  if (!validator.Check(value))
    throw new ServiceError('upstream_schema', {
      model,
      detail: 'The answer does not match the schema.',
    })
  return value
}
