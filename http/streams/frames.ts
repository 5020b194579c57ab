import { Type, type Static, type TSchema } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { SAID } from '../../core/said.ts'
import { demand, inputChecker, type Checker } from '../../tools/validate.ts'
import { MessageFields } from '../routes/messages.ts'
import { PulseFields } from '../routes/pulses.ts'
import { Payload, SignalKind, Ttl } from '../routes/signals.ts'
import { CURSOR_TEXT } from './keys.ts'

/** The subprotocol of the socket (decision 44). */
export const SUBPROTOCOL = 'gas.v1'

/** Why the service closes a socket; clients decide by it whether to come back. */
export const CLOSE = {
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
export type CloseCode = (typeof CLOSE)[keyof typeof CLOSE]

const Cursor = Type.String({ pattern: CURSOR_TEXT })
const Name = Type.String({ minLength: 1, maxLength: 128, pattern: SAID })
const Names = Type.Array(Name, { minItems: 1, maxItems: LIMITS.streamChannels })
/** Part of an Idempotency-Key, so what such a key may hold. */
const Ref = Type.String({ pattern: '^[\\x21-\\x7e]{1,64}$' })

const FRAMES = {
  hello: Type.Object({
    ref: Type.Optional(Ref),
    api_key: Type.Optional(Type.String({ maxLength: 256 })),
    resume: Type.Optional(
      Type.Object({
        session: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }),
        cursor: Type.Object({ signals: Cursor, outbox: Cursor }),
      }),
    ),
  }),
  subscribe: Type.Object({ ref: Ref, channels: Names, since: Type.Optional(Cursor) }),
  unsubscribe: Type.Object({ ref: Ref, channels: Names }),
  publish: Type.Object({
    ref: Ref,
    channel: Name,
    signal_type: SignalKind,
    payload: Payload,
    ttl_seconds: Type.Optional(Ttl),
  }),
  pulse: Type.Object({ ref: Ref, ...PulseFields }),
  message: Type.Object({ ref: Ref, ...MessageFields }),
  refuel: Type.Object({ ref: Ref, tool: Type.String({ minLength: 1, maxLength: 64 }) }),
  ping: Type.Object({ ref: Type.Optional(Ref) }),
} satisfies Record<string, TSchema>

type Frames = { [T in keyof typeof FRAMES]: { type: T } & Static<(typeof FRAMES)[T]> }
export type FrameType = keyof Frames
/** A frame of a client, as far as its type fixes its fields. */
export type Frame<T extends FrameType = FrameType> = Frames[T]

const checkers = Object.fromEntries(
  Object.entries(FRAMES).map(([type, schema]) => [type, inputChecker(schema)]),
) as Record<FrameType, Checker>

/** What is no frame of this protocol: nothing of it can be answered. */
export class BadFrame extends Error {}

/** Reads the type and the ref of a frame; its fields are not looked at. */
export function parseFrame(text: string): { type: FrameType; ref: string | null } {
  const parsed = read(text)
  const { type, ref } = parsed
  if (typeof type !== 'string' || !Object.hasOwn(FRAMES, type))
    throw new BadFrame('a frame has one of the known types')
  return { ...parsed, type: type as FrameType, ref: typeof ref === 'string' ? ref : null }
}

/** Refuses a frame whose fields are not those of its type. */
export function demandFields(frame: { type: FrameType; ref: string | null }): Frame {
  const { type, ref, ...fields } = frame
  const given = ref === null ? fields : { ref, ...fields }
  if (isPoisoned(given)) throw new ServiceError('invalid_input', { detail: 'has a forbidden name' })
  demand(checkers[type](given))
  return { type, ...given } as unknown as Frame
}

function read(text: string): Record<string, unknown> {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    throw new BadFrame('a frame is one JSON object')
  }
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed))
    return parsed as Record<string, unknown>
  throw new BadFrame('a frame is one JSON object')
}

/** Names that could reach a prototype; the depth was bounded by nobody yet, so it is here. */
function isPoisoned(value: unknown, depth = 0): boolean {
  if (typeof value !== 'object' || value === null || depth > LIMITS.jsonDepth) return false
  if (Object.hasOwn(value, '__proto__')) return true
  return Object.values(value).some((inner) => isPoisoned(inner, depth + 1))
}
