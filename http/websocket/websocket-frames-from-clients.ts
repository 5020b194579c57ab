import { Type, type Static, type TSchema } from 'typebox'
import { invalidInputError, type ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  assertSafeJson,
  findRequestFault,
  markJsonText,
  type JsonTextMarks,
} from '../../core/validation/safe-json.ts'
import { readFields } from '../../core/validation/request-fields.ts'
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
  /** Why the text may not be read any further; null where it may. */
  readonly misshapen: string | null
  readonly marks: JsonTextMarks
  /** All fields except the type. */
  readonly fields: Readonly<Record<string, unknown>>
}

/** Parses the type and the ref of a frame; its fields are not validated. */
export function parseWsClientFrame(bytes: Buffer): UnvalidatedWsClientFrame {
  const text = bytes.toString('utf8')
  const { type, ...fields } = parseFrameJson(text)
  if (typeof type !== 'string') throw new InvalidWsFrameError('a frame has a type')
  const { ref } = fields
  return {
    type,
    ref: typeof ref === 'string' ? ref : null,
    misshapen: findRequestFault(bytes, LIMITS.jsonValuesWithKey),
    marks: markJsonText(text),
    fields,
  }
}

/** Throws for an unknown type, and for fields that do not match it. */
export function assertValidWsClientFrame({
  type,
  fields,
  misshapen,
  marks,
}: UnvalidatedWsClientFrame): WsClientFrame {
  if (!isFrameType(type)) throw unknownType(type)
  if (misshapen !== null) throw invalidInputError('', misshapen)
  assertSafeJson(fields, marks)
  const kept = readFields(FRAME_SCHEMAS[type], fields)
  throwInvalidInputOnIssues(checkers[type](kept))
  return { type, ...kept } as unknown as WsClientFrame
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
