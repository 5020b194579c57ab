import AjvCompiler from '@fastify/ajv-compiler'
import { SerializerSelector } from '@fastify/fast-json-stringify-compiler'
import type {
  FastifyInstance,
  FastifySchemaCompiler,
  FastifySchemaValidationError,
  FastifySerializerCompiler,
} from 'fastify'
import {
  describeSchemaViolations,
  type SchemaViolation,
  type ValidationIssue,
} from '../../core/validation/validation-errors.ts'
import { withExactIntegers } from '../../core/json/exact.ts'
import type { DescribableJsonSchema } from '../../core/validation/describe-json-schema.ts'
import { readFields } from '../../core/validation/request-fields.ts'
import { createLazySchemaCompiler } from './lazy-schema-compiler.ts'
import { coerceParameters } from './query-and-path-parameter-coercion.ts'

/** Validates requests with Ajv and reports every issue in plain words. */

/**
 * A test checks the schemas against the meta schema. Checking them at every start would take as long as the
 * rest of it.
 */
const AJV_OPTIONS = {
  coerceTypes: false,
  // Verbose, since issues quote the expected and the given value.
  verbose: true,
  removeAdditional: false,
  useDefaults: true,
  meta: false,
  validateSchema: false,
}

/** The actual signature of Fastify's compiler; its own types describe an older version. */
type BuildValidatorCompiler = (
  schemas: unknown,
  options: { customOptions: object },
) => FastifySchemaCompiler<unknown>

type BuildSerializerCompiler = (
  schemas: unknown,
  options: unknown,
) => FastifySerializerCompiler<unknown>

/** Shared by all servers of a process, since it caches what it compiles. */
const buildValidatorCompiler = AjvCompiler() as unknown as BuildValidatorCompiler
const buildSerializerCompiler = SerializerSelector() as unknown as BuildSerializerCompiler

type Serializer = ReturnType<FastifySerializerCompiler<unknown>>

/** By their schema: servers of one process share what they have compiled. */
const compiledSerializers = new WeakMap<object, Serializer>()
const strictQueries = new WeakMap<object, object>()

const NO_PARAMETERS = { type: 'object', properties: {} }

/** The same schema, refusing unknown parameters. */
function toStrictQuery(query: object): object {
  const strict = strictQueries.get(query) ?? { ...query, additionalProperties: false }
  strictQueries.set(query, strict)
  return strict
}

/**
 * Validates bodies as they are, and converts query, path and headers first (`coerceParameters`). Unknown
 * query parameters are refused like unknown body fields, unless the route sets `ignoresUnknownQuery`.
 * `app.warm()` compiles the remaining schemas in the background.
 */
export function installSchemaValidation(app: FastifyInstance): void {
  const { later, warm } = createLazySchemaCompiler()
  const buildValidator = (schemas: unknown): FastifySchemaCompiler<unknown> => {
    const first = buildValidatorCompiler(schemas, {
      customOptions: { ...AJV_OPTIONS, allErrors: false },
    })
    const all = buildValidatorCompiler(schemas, {
      customOptions: { ...AJV_OPTIONS, allErrors: true },
    })
    return (route) => {
      const check = withAllErrors(
        later(() => first(route) as ValidateFunction),
        () => all(route) as ValidateFunction,
      )
      const read = (value: unknown) =>
        readFields(route.schema, value, schemas as Record<string, unknown>)
      const isText = route.httpPart !== 'body'
      return withFieldsRead(check, read, isText ? (route.schema as object) : null) as never
    }
  }
  const buildSerializer = (schemas: unknown, options: unknown) => {
    const stringify = buildSerializerCompiler(schemas, options)
    return ((route) =>
      later(() => {
        const key = route.schema as object
        const compiled = compiledSerializers.get(key) ?? withExactIntegers(stringify(route))
        compiledSerializers.set(key, compiled)
        return compiled
      })) as FastifySerializerCompiler<unknown>
  }
  const compilersFactory = { buildValidator, buildSerializer } as never
  app.setSchemaController({ compilersFactory })
  app.decorate('warm', warm)
  app.addHook('onRoute', (route) => {
    if (route.config?.ignoresUnknownQuery === true) return
    const { querystring = NO_PARAMETERS, ...schema } = route.schema ?? { hide: true }
    route.schema = { ...schema, querystring: toStrictQuery(querystring as object) }
  })
}

type ValidateFunction = ((value: unknown) => boolean) & { errors?: unknown }

/** A larger value reports its first error only: thousands of errors are of no use. */
const MAX_ALL_ERRORS_BYTES = 16 * 1024

/** Validates with `first`, which stops at the first error, and validates a refused value again with `all`. */
function withAllErrors(first: ValidateFunction, makeAll: () => ValidateFunction): ValidateFunction {
  let all: ValidateFunction | null = null
  const check: ValidateFunction = (value) => {
    if (first(value)) return true
    check.errors = first.errors
    if ((JSON.stringify(value) ?? '').length > MAX_ALL_ERRORS_BYTES) return false
    all ??= makeAll()
    if (!all(value)) check.errors = all.errors
    return false
  }
  return check
}

type ValidatePart = ((value: unknown) => boolean | { value: unknown }) & { errors?: unknown }

/**
 * Validates a refused part again with its fields as they are meant; Fastify takes the value from here.
 * Parameters with the schema `texts` are text, and converted first.
 */
function withFieldsRead(
  check: ValidateFunction,
  read: (value: unknown) => unknown,
  texts: object | null,
): ValidatePart {
  const reading: ValidatePart = (given) => {
    if (texts !== null) coerceParameters(texts, given)
    if (check(given)) return true
    const value = read(given)
    if (value !== given && check(value)) return { value }
    reading.errors = check.errors
    return false
  }
  return reading
}

/** Each is compared with the fields that there are, so more of them cost time and help nobody. */
const MAX_ISSUES = 32

/** The part of the request that an issue is in, unless it is the body. */
type LocatedIssue = ValidationIssue & { readonly in?: string }

/** Converts Ajv errors to plain words; a missing or unknown field is named itself. */
export function toRequestValidationIssues(
  errors: readonly FastifySchemaValidationError[],
  part: string,
): LocatedIssue[] {
  const where = part === 'body' ? {} : { in: part === 'querystring' ? 'query' : part }
  return describeSchemaViolations(
    errors.slice(0, MAX_ISSUES).map((error) => toAjvSchemaError(error, part !== 'body')),
  ).map((misfit) => ({
    ...misfit,
    ...where,
  }))
}

/** Properties of a verbose Ajv error that Fastify's type lacks. */
type VerboseAjvError = FastifySchemaValidationError & {
  parentSchema?: DescribableJsonSchema
  data?: unknown
}

function toAjvSchemaError(error: VerboseAjvError, isTextInput: boolean): SchemaViolation {
  const { instancePath, keyword, params, message = 'does not match', schemaPath } = error
  const name = params[keyword === 'required' ? 'missingProperty' : 'additionalProperty']
  return {
    keyword,
    pointer: instancePath,
    schemaPath: schemaPath.slice(0, schemaPath.lastIndexOf('/')),
    names: typeof name === 'string' ? [name] : [],
    schema: error.parentSchema ?? {},
    value: error.data,
    isTextInput,
    message,
  }
}
