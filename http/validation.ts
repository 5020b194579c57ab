import AjvCompiler from '@fastify/ajv-compiler'
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import type {
  FastifyInstance,
  FastifySchemaCompiler,
  FastifySchemaValidationError,
  FastifySerializerCompiler,
} from 'fastify'
import { explained, type Complaint, type Misfit } from '../core/misfit.ts'
import type { Shape } from '../core/shape.ts'
import { compilesWhenUsed } from './compiling.ts'

/**
 * Our own schemas are checked against the meta schema by a test, all at once, and not by every start:
 * that would take as long as all the rest of it.
 */
const common = {
  allErrors: false,
  // What was asked and given is told to whoever got it wrong.
  verbose: true,
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

/** Where the value was, unless in the body. */
type Placed = Misfit & { readonly in?: string }

/** Ajv's complaints in plain words; a missing or unknown field is named itself. */
export function misfits(errors: readonly FastifySchemaValidationError[], part: string): Placed[] {
  const where = part === 'body' ? {} : { in: part === 'querystring' ? 'query' : part }
  return explained(errors.map(complaintOf)).map((misfit) => ({ ...misfit, ...where }))
}

/** What a verbose Ajv says beyond what Fastify knows of. */
type Verbose = FastifySchemaValidationError & { parentSchema?: Shape; data?: unknown }

function complaintOf(error: Verbose): Complaint {
  const { instancePath, keyword, params, message = 'does not match', schemaPath } = error
  const name = params[keyword === 'required' ? 'missingProperty' : 'additionalProperty']
  return {
    keyword,
    at: instancePath,
    path: schemaPath.slice(0, schemaPath.lastIndexOf('/')),
    names: typeof name === 'string' ? [name] : [],
    shape: error.parentSchema ?? {},
    given: error.data,
    message,
  }
}
