import { Type, type Static, type TSchema } from 'typebox'
import { invalidInputError, type ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  UNSAFE_INTEGER_MESSAGE,
  findUnsafeIntegers,
} from '../../core/validation/unsafe-json-integers.ts'
import { escapeJsonPointer } from '../../core/validation/validation-errors.ts'
import { findClosestWord } from '../../core/validation/did-you-mean.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import {
  throwInvalidInputOnIssues,
  compileInputValidator,
  type SchemaValidator,
} from '../../tools/schema-validator.ts'
import { AgentMessageFieldSchemas } from '../routes/realtime/message-routes.ts'
import { PulseFieldSchemas } from '../routes/realtime/pulse-routes.ts'
import {
  SignalPayloadSchema,
  SignalTypeSchema,
  SignalTtlSchema,
} from '../routes/realtime/signal-routes.ts'
import { StrictBody, PathIdSchema } from '../schemas/shared-schemas.ts'
import { STREAM_CURSOR_PATTERN } from '../stream-api-key-and-cursor.ts'

/** The subprotocol of the socket (decision 44). */
export const WS_SUBPROTOCOL = 'gas.v1'

/** Close codes of the service; clients decide by them whether to reconnect. */
export const WS_CLOSE_CODES = {
  restart: 1012,
  badFrame: 4400,
  unauthenticated: 4401,
  forbidden: 4403,
  noSubprotocol: 4406,
  slow: 4408,
  replaced: 4409,
  tooMany: 4429,
  internal: 4500,
} as const
export type WsCloseCode = (typeof WS_CLOSE_CODES)[keyof typeof WS_CLOSE_CODES]

const Cursor = Type.String({ pattern: STREAM_CURSOR_PATTERN })
const Name = Type.String({ minLength: 1, maxLength: 128, pattern: NOT_BLANK_PATTERN })
const Names = Type.Array(Name, { minItems: 1, maxItems: LIMITS.streamChannels })
/** A `ref` becomes part of an Idempotency-Key, so it allows the same characters. */
const Ref = Type.String({ pattern: '^[\\x21-\\x7e]{1,64}$' })

const FRAME_SCHEMAS = {
  hello: StrictBody({
    ref: Type.Optional(Ref),
    api_key: Type.Optional(Type.String({ maxLength: 256 })),
    resume: Type.Optional(
      Type.Object({
        session: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }),
        cursor: Type.Object({ signals: Cursor, outbox: Cursor }),
      }),
    ),
  }),
  subscribe: StrictBody({ ref: Ref, channels: Names, since: Type.Optional(Cursor) }),
  unsubscribe: StrictBody({ ref: Ref, channels: Names }),
  publish: StrictBody({
    ref: Ref,
    channel: Name,
    signal_type: Type.Optional(SignalTypeSchema),
    payload: Type.Optional(SignalPayloadSchema),
    ttl_seconds: Type.Optional(SignalTtlSchema),
  }),
  pulse: StrictBody({ ref: Ref, ...PulseFieldSchemas }),
  message: StrictBody({ ref: Ref, ...AgentMessageFieldSchemas }),
  refuel: Type.Object({
    ref: Ref,
    tool: Type.String({ minLength: 1, maxLength: 64 }),
    task_id: Type.Optional(PathIdSchema),
    backpack_id: Type.Optional(PathIdSchema),
  }),
  ping: StrictBody({ ref: Type.Optional(Ref) }),
} satisfies Record<string, TSchema>

type FramesByType = {
  [T in keyof typeof FRAME_SCHEMAS]: { type: T } & Static<(typeof FRAME_SCHEMAS)[T]>
}
export type WsClientFrameType = keyof FramesByType
/** A client frame with the fields of its type. */
export type WsClientFrame<T extends WsClientFrameType = WsClientFrameType> = FramesByType[T]

const checkers = Object.fromEntries(
  Object.entries(FRAME_SCHEMAS).map(([type, schema]) => [type, compileInputValidator(schema)]),
) as Record<WsClientFrameType, SchemaValidator>

/** Thrown for input that is no frame of this protocol, so that no error frame can answer it. */
export class InvalidWsFrameError extends Error {}

/** A parsed frame: only its type is known to be a string. */
export interface UnvalidatedWsClientFrame {
  readonly type: string
  /** The ref of the response; null without a valid one. */
  readonly ref: string | null
  /** Integers that a double cannot hold, by their rounded value. */
  readonly unsafeIntegers: ReadonlySet<number>
  /** All fields except the type. */
  readonly fields: Readonly<Record<string, unknown>>
}

/** Parses the type and the ref of a frame; its fields are not validated. */
export function parseWsClientFrame(text: string): UnvalidatedWsClientFrame {
  const { type, ...fields } = parseFrameJson(text)
  if (typeof type !== 'string') throw new InvalidWsFrameError('a frame has a type')
  const { ref } = fields
  return {
    type,
    ref: typeof ref === 'string' ? ref : null,
    unsafeIntegers: findUnsafeIntegers(text),
    fields,
  }
}

/** Throws for an unknown type, and for fields that do not match it. */
export function assertValidWsClientFrame({
  type,
  fields,
  unsafeIntegers,
}: UnvalidatedWsClientFrame): WsClientFrame {
  if (!isFrameType(type)) throw unknownType(type)
  assertSafeJson(fields, '', 0, unsafeIntegers)
  throwInvalidInputOnIssues(checkers[type](fields))
  return { type, ...fields } as unknown as WsClientFrame
}

const isFrameType = (type: string): type is WsClientFrameType => Object.hasOwn(FRAME_SCHEMAS, type)

function unknownType(type: string): ServiceError {
  const known = Object.keys(FRAME_SCHEMAS)
  const error = invalidInputError('/type', `must be one of ${known.join(', ')}`)
  const meant = findClosestWord(type, known)
  if (meant !== null) error.details['did_you_mean'] = meant
  return error
}

function parseFrameJson(text: string): Record<string, unknown> {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw new InvalidWsFrameError('a frame is one JSON object')
  }
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed))
    return parsed as Record<string, unknown>
  throw new InvalidWsFrameError('a frame is one JSON object')
}

/**
 * Throws for what HTTP bodies may not have either: names that reach a prototype, and numbers beyond a double,
 * which would be stored as null. Depth is checked with the fields.
 */
function assertSafeJson(
  value: unknown,
  pointer: string,
  depth: number,
  lost: ReadonlySet<number>,
): void {
  if (lost.has(value as number)) throw invalidInputError(pointer, UNSAFE_INTEGER_MESSAGE)
  if (typeof value === 'number' && !Number.isFinite(value))
    throw invalidInputError(pointer, 'must be a finite number')
  if (typeof value !== 'object' || value === null || depth > LIMITS.jsonDepth) return
  if (reachesPrototype(value)) throw invalidInputError(pointer, 'has a forbidden name')
  for (const [name, inner] of Object.entries(value))
    assertSafeJson(inner, `${pointer}/${escapeJsonPointer(name)}`, depth + 1, lost)
}

function reachesPrototype(value: object): boolean {
  if (Object.hasOwn(value, '__proto__')) return true
  const own = Object.getOwnPropertyDescriptor(value, 'constructor')?.value as unknown
  return typeof own === 'object' && own !== null && Object.hasOwn(own, 'prototype')
}
