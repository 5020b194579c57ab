import { Type, type Static, type TObjectOptions, type TProperties, type TSchema } from 'typebox'
import { MAX_BUDGET } from '../../domain/pricing.ts'
import { toUsdc } from '../../core/money.ts'
import { USDC_DESCRIPTION_SUFFIX } from '../../core/validation/describe-schema.ts'

/** Refers to a shared component of the OpenAPI document by its `$id`. */
export const schemaRef = <T extends TSchema>(schema: T & { $id?: string }) =>
  Type.Unsafe<Static<T>>({ $ref: `${schema.$id}#` })

export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

/**
 * The body of a request that pays, creates or changes something. Unknown fields are refused: a misspelt limit
 * must not count as none.
 */
export const StrictBody = <T extends TProperties>(fields: T, options: TObjectOptions = {}) =>
  Type.Object(fields, { ...options, additionalProperties: false })

/** RFC 9457 problem: every error of the service, with what an agent needs to act on it. */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({ description: 'URL that documents this kind of problem.' }),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    instance: Type.String(),
    code: Type.String({ description: 'The code to act on.' }),
    error: Type.String({ description: 'The same as code.' }),
    errors: Type.Optional(
      Type.Array(
        Type.Object(
          { pointer: Type.String(), detail: Type.String() },
          { additionalProperties: true },
        ),
      ),
    ),
    retry_after: Type.Optional(Type.Number({ description: 'Seconds.' })),
    fund_url: Type.Optional(Type.String()),
    call_id: Type.Optional(Type.String()),
    refunded: Type.Optional(Type.Boolean()),
    remedy: Type.Optional(
      Type.Object(
        {
          action: Type.String(),
          method: Type.Optional(Type.String()),
          url: Type.Optional(Type.String()),
        },
        { additionalProperties: true },
      ),
    ),
  },
  { $id: 'Problem', additionalProperties: true },
)

/** Errors that every route can return. */
export const errorResponses = {
  '4XX': {
    description: 'The request was refused; `code` says why.',
    content: { 'application/problem+json': { schema: schemaRef(ProblemSchema) } },
  },
  '5XX': {
    description:
      'The service or an upstream provider failed. Nothing was charged where it says `refunded`; else repeat with the same Idempotency-Key to learn the outcome.',
    content: { 'application/problem+json': { schema: schemaRef(ProblemSchema) } },
  },
} as const

const MAX_USDC_AMOUNT = toUsdc(MAX_BUDGET)

/** A requested amount of USDC: positive, at most six decimals. */
export const UsdcAmountSchema = (
  description: string,
  bounds: { minimum?: number; maximum?: number; default?: number } = {},
) =>
  Type.Number({
    ...(bounds.minimum === undefined ? { exclusiveMinimum: 0 } : {}),
    maximum: MAX_USDC_AMOUNT,
    ...bounds,
    description: `${description}, ${USDC_DESCRIPTION_SUFFIX}`,
  })

/** An amount in a response. */
export const UsdcSchema = Type.Number()
export const UuidSchema = Type.String({ format: 'uuid' })
export const DateTimeSchema = Type.String({ format: 'date-time' })
/** Ids in paths: any well-formed id; an unknown one gets 404. */
export const PATH_ID_PATTERN = '^[A-Za-z0-9_-]{1,64}$'
export const IdSchema = Type.String({ pattern: PATH_ID_PATTERN })
export const isPathId = (text: unknown): text is string =>
  typeof text === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(text)

export const toIsoTime = (at: number | Date): string => new Date(at).toISOString()
export const toIsoTimeOrNull = (at: number | Date | null): string | null =>
  at === null ? null : toIsoTime(at)
