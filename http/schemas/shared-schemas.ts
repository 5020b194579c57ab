import { Type, type Static, type TObjectOptions, type TProperties, type TSchema } from 'typebox'
import { MAX_CREDIT_AMOUNT } from '../../domain/pricing.ts'
import { ERROR_DEFINITIONS } from '../../core/errors.ts'
import { toUsdc } from '../../core/money.ts'
import { USDC_DESCRIPTION_SUFFIX } from '../../core/validation/describe-json-schema.ts'

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

/** A web address, which may be written in any spelling (decision 451). */
export const WebAddress = (description: string) =>
  Type.String({ format: 'uri', minLength: 1, maxLength: 2_048, description })

/** Every error code, so that clients can switch over them. */
export const ErrorCodeSchema = Type.Unsafe<string>({
  $id: 'ErrorCode',
  type: 'string',
  enum: Object.keys(ERROR_DEFINITIONS),
  description: 'What went wrong; `GET /problems/{code}` explains it.',
})

/** RFC 9457 problem: every error of the service, with what an agent needs to act on it. */
export const ProblemSchema = Type.Object(
  {
    type: Type.String({ description: 'URL that documents this kind of problem.' }),
    title: Type.String({ description: 'What this code means.' }),
    status: Type.Integer({ description: 'The HTTP status.' }),
    detail: Type.String({ description: 'What was wrong with this request.' }),
    instance: Type.String({ description: '`urn:request:` and the `X-Request-Id`.' }),
    code: schemaRef(ErrorCodeSchema),
    error: schemaRef(ErrorCodeSchema),
    errors: Type.Optional(
      Type.Array(
        Type.Object(
          {
            pointer: Type.String({ description: 'JSON Pointer to the field.' }),
            detail: Type.String({ description: 'What the field must be.' }),
          },
          { additionalProperties: true },
        ),
        { description: 'Every invalid field.' },
      ),
    ),
    retry_after: Type.Optional(
      Type.Number({ description: 'Seconds after which a repetition may succeed.' }),
    ),
    fund_url: Type.Optional(
      Type.String({ description: 'A page to fund the agent, for its owner.' }),
    ),
    call_id: Type.Optional(Type.String({ description: 'The call that failed.' })),
    refunded: Type.Optional(Type.Boolean({ description: 'Nothing was charged.' })),
    credited_usdc: Type.Optional(
      Type.Number({ description: 'The payment of the failed call, which is in your credits.' }),
    ),
    settlement_id: Type.Optional(Type.String({ description: 'The payment that has settled.' })),
    limit_source: Type.Optional(Type.String({ description: 'Whose limit was reached.' })),
    limit_usdc: Type.Optional(Type.Number({ description: 'The limit.' })),
    spent_usdc: Type.Optional(Type.Number({ description: 'What is spent and held of the limit.' })),
    needed_usdc: Type.Optional(Type.Number({ description: 'What the request would cost.' })),
    remedy: Type.Optional(
      Type.Object(
        {
          action: Type.String({ description: 'What to do.' }),
          method: Type.Optional(Type.String({ description: 'The method of the request to make.' })),
          url: Type.Optional(Type.String({ description: 'The address of the request to make.' })),
        },
        { additionalProperties: true, description: 'The next step.' },
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

const MAX_USDC_AMOUNT = toUsdc(MAX_CREDIT_AMOUNT)

/** A requested amount of USDC: positive, at most six decimals. */
export const RequestUsdcAmountSchema = (
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
export const ResponseUsdcAmountSchema = Type.Number()
export const UuidSchema = Type.String({ format: 'uuid' })
export const DateTimeSchema = Type.String({ format: 'date-time' })
/** Ids in paths: any well-formed id; an unknown one gets 404. */
export const PATH_ID_PATTERN = '^[A-Za-z0-9_-]{1,64}$'
export const PathIdSchema = Type.String({ pattern: PATH_ID_PATTERN })
export const isPathId = (text: unknown): text is string =>
  typeof text === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(text)

export const toIsoTime = (at: number | Date): string => new Date(at).toISOString()
export const toIsoTimeOrNull = (at: number | Date | null): string | null =>
  at === null ? null : toIsoTime(at)
