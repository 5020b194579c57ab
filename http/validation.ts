import AjvCompiler from '@fastify/ajv-compiler'
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import type {
  FastifyInstance,
  FastifySchemaCompiler,
  FastifySchemaValidationError,
  FastifySerializerCompiler,
} from 'fastify'
import { unsaid } from '../core/said.ts'
import { escapePointer } from './body.ts'
import { compilesWhenUsed } from './compiling.ts'

/**
 * Our own schemas are checked against the meta schema by a test, all at once, and not by every start:
 * that would take as long as all the rest of it.
 */
const common = {
  allErrors: false,
  removeAdditional: false,
  useDefaults: true,
  meta: false,
  validateSchema: false,
}

/** What the compiler of Fastify really takes and gives; its own types describe an older form. */
type Build = (
  schemas: unknown,
  options: { customOptions: object },
) => FastifySchemaCompiler<unknown>

type BuildSerializer = (schemas: unknown, options: unknown) => FastifySerializerCompiler<unknown>

/** It knows what it has compiled: several servers of one process share it. */
const build = AjvCompiler() as unknown as Build
const buildStringify = SerializerSelector() as unknown as BuildSerializer

/**
 * Bodies are taken as they are: coercion would turn `null` into 0. Query, path and headers are text
 * on the wire, so there it is needed. `app.warm()` compiles what nobody has used yet.
 */
export function installValidation(app: FastifyInstance): void {
  const { later, warm } = compilesWhenUsed()
  const buildValidator = (schemas: unknown): FastifySchemaCompiler<unknown> => {
    const strict = build(schemas, { customOptions: { ...common, coerceTypes: false } })
    const coercing = build(schemas, { customOptions: { ...common, coerceTypes: 'array' } })
    return (route) => later(() => (route.httpPart === 'body' ? strict(route) : coercing(route)))
  }
  const buildSerializer = (schemas: unknown, options: unknown) => {
    const stringify = buildStringify(schemas, options)
    return ((route) => later(() => stringify(route))) as FastifySerializerCompiler<unknown>
  }
  const compilersFactory = { buildValidator, buildSerializer } as never
  app.setSchemaController({ compilersFactory })
  app.decorate('warm', warm)
}

export interface Misfit {
  readonly pointer: string
  readonly detail: string
  /** Where the value was, unless in the body. */
  readonly in?: string
}

/** Ajv's complaints as pointers; a missing or unknown field is named itself. */
export function misfits(errors: readonly FastifySchemaValidationError[], part: string): Misfit[] {
  const where = part === 'body' ? {} : { in: part === 'querystring' ? 'query' : part }
  return errors.map((error) => ({ ...misfit(error), ...where }))
}

function misfit({ instancePath, keyword, params, message }: FastifySchemaValidationError): Misfit {
  if (keyword === 'required') {
    const name = String(params['missingProperty'])
    return { pointer: `${instancePath}/${escapePointer(name)}`, detail: 'is required' }
  }
  if (keyword === 'additionalProperties') {
    const name = String(params['additionalProperty'])
    return { pointer: `${instancePath}/${escapePointer(name)}`, detail: 'is not a field here' }
  }
  if (keyword === 'enum' && Array.isArray(params['allowedValues'])) {
    return { pointer: instancePath, detail: `must be one of ${params['allowedValues'].join(', ')}` }
  }
  if (keyword === 'const') {
    return { pointer: instancePath, detail: `must be ${JSON.stringify(params['allowedValue'])}` }
  }
  return {
    pointer: instancePath,
    detail: unsaid(keyword, params) ?? message ?? 'does not match',
  }
}
