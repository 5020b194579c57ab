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
import { readTexts } from './wire-text.ts'

/**
 * Our own schemas are checked against the meta schema by a test, all at once, and not by every start:
 * that would take as long as all the rest of it.
 */
const common = {
  coerceTypes: false,
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
 * Bodies are taken as they are; the text of query, path and headers is read first (`readTexts`). A
 * query parameter that a route does not know is refused, as a field of a body is, unless the route says
 * `ignoresUnknownQuery`. `app.warm()` compiles what nobody has used yet.
 */
export function installValidation(app: FastifyInstance): void {
  const { later, warm } = compilesWhenUsed()
  const buildValidator = (schemas: unknown): FastifySchemaCompiler<unknown> => {
    const first = build(schemas, { customOptions: { ...common, allErrors: false } })
    const all = build(schemas, { customOptions: { ...common, allErrors: true } })
    return (route) => {
      const check = complaining(
        later(() => first(route) as Check),
        () => all(route) as Check,
      )
      return (route.httpPart === 'body' ? check : readingTexts(check, route.schema)) as never
    }
  }
  const buildSerializer = (schemas: unknown, options: unknown) => {
    const stringify = buildStringify(schemas, options)
    return ((route) => later(() => stringify(route))) as FastifySerializerCompiler<unknown>
  }
  const compilersFactory = { buildValidator, buildSerializer } as never
  app.setSchemaController({ compilersFactory })
  app.decorate('warm', warm)
  app.addHook('onRoute', (route) => {
    if (route.url.startsWith('/docs') || route.config?.ignoresUnknownQuery === true) return
    const { querystring = { type: 'object', properties: {} }, ...schema } = route.schema ?? {
      hide: true,
    }
    route.schema = {
      ...schema,
      querystring: { ...(querystring as object), additionalProperties: false },
    }
  })
}

type Check = ((value: unknown) => boolean) & { errors?: unknown }

/** A larger value tells its first error only: a list of thousands of errors is of use to nobody. */
const TELLS_ALL_BYTES = 16 * 1024

/** Checks by `first`, which ends at the first error; a refused value is looked at once more by `all`. */
function complaining(first: Check, makeAll: () => Check): Check {
  let all: Check | null = null
  const check: Check = (value) => {
    if (first(value)) return true
    check.errors = first.errors
    if ((JSON.stringify(value) ?? '').length > TELLS_ALL_BYTES) return false
    all ??= makeAll()
    if (!all(value)) check.errors = all.errors
    return false
  }
  return check
}

function readingTexts(check: Check, schema: unknown): Check {
  const reading: Check = (value) => {
    readTexts(schema as object, value)
    if (check(value)) return true
    reading.errors = check.errors
    return false
  }
  return reading
}

/** Where the value was, unless in the body. */
type Placed = Misfit & { readonly in?: string }

/** Ajv's complaints in plain words; a missing or unknown field is named itself. */
export function misfits(errors: readonly FastifySchemaValidationError[], part: string): Placed[] {
  const where = part === 'body' ? {} : { in: part === 'querystring' ? 'query' : part }
  return explained(errors.map((error) => complaintOf(error, part !== 'body'))).map((misfit) => ({
    ...misfit,
    ...where,
  }))
}

/** What a verbose Ajv says beyond what Fastify knows of. */
type Verbose = FastifySchemaValidationError & { parentSchema?: Shape; data?: unknown }

function complaintOf(error: Verbose, onWire: boolean): Complaint {
  const { instancePath, keyword, params, message = 'does not match', schemaPath } = error
  const name = params[keyword === 'required' ? 'missingProperty' : 'additionalProperty']
  return {
    keyword,
    at: instancePath,
    path: schemaPath.slice(0, schemaPath.lastIndexOf('/')),
    names: typeof name === 'string' ? [name] : [],
    shape: error.parentSchema ?? {},
    given: error.data,
    onWire,
    message,
  }
}
