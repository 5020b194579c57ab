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
import type { SchemaNode } from '../../core/validation/describe-schema.ts'
import { createLazySchemaCompiler } from './lazy-schema-compiler.ts'
import { coerceParameters } from './parameter-coercion.ts'

/**
 * Our own schemas are checked against the meta schema by a test, all at once, and not by every start:
 * that would take as long as all the rest of it.
 */
const AJV_OPTIONS = {
  coerceTypes: false,
  // What was asked and given is told to whoever got it wrong.
  verbose: true,
  removeAdditional: false,
  useDefaults: true,
  meta: false,
  validateSchema: false,
}

/** What the compiler of Fastify really takes and gives; its own types describe an older form. */
type BuildValidatorCompiler = (
  schemas: unknown,
  options: { customOptions: object },
) => FastifySchemaCompiler<unknown>

type BuildSerializerCompiler = (
  schemas: unknown,
  options: unknown,
) => FastifySerializerCompiler<unknown>

/** It knows what it has compiled: several servers of one process share it. */
const buildValidatorCompiler = AjvCompiler() as unknown as BuildValidatorCompiler
const buildSerializerCompiler = SerializerSelector() as unknown as BuildSerializerCompiler

/**
 * Bodies are taken as they are; the text of query, path and headers is read first (`coerceParameters`). A
 * query parameter that a route does not know is refused, as a field of a body is, unless the route says
 * `ignoresUnknownQuery`. `app.warm()` compiles what nobody has used yet.
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
      return (
        route.httpPart === 'body' ? check : withParameterCoercion(check, route.schema)
      ) as never
    }
  }
  const buildSerializer = (schemas: unknown, options: unknown) => {
    const stringify = buildSerializerCompiler(schemas, options)
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

type ValidateFunction = ((value: unknown) => boolean) & { errors?: unknown }

/** A larger value tells its first error only: a list of thousands of errors is of use to nobody. */
const MAX_ALL_ERRORS_BYTES = 16 * 1024

/** Checks by `first`, which ends at the first error; a refused value is looked at once more by `all`. */
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

function withParameterCoercion(check: ValidateFunction, schema: unknown): ValidateFunction {
  const reading: ValidateFunction = (value) => {
    coerceParameters(schema as object, value)
    if (check(value)) return true
    reading.errors = check.errors
    return false
  }
  return reading
}

/** Where the value was, unless in the body. */
type LocatedIssue = ValidationIssue & { readonly in?: string }

/** Ajv's complaints in plain words; a missing or unknown field is named itself. */
export function toRequestValidationIssues(
  errors: readonly FastifySchemaValidationError[],
  part: string,
): LocatedIssue[] {
  const where = part === 'body' ? {} : { in: part === 'querystring' ? 'query' : part }
  return describeSchemaViolations(
    errors.map((error) => toAjvSchemaError(error, part !== 'body')),
  ).map((misfit) => ({
    ...misfit,
    ...where,
  }))
}

/** What a verbose Ajv says beyond what Fastify knows of. */
type VerboseAjvError = FastifySchemaValidationError & { parentSchema?: SchemaNode; data?: unknown }

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
