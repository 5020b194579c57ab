import { Type, type Static, type TSchema } from 'typebox'
import { invalid, type ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { LOST_INTEGER, lostIntegers } from '../../core/json-numbers.ts'
import { escapePointer } from '../../core/misfit.ts'
import { nearest } from '../../core/near.ts'
import { SAID } from '../../core/said.ts'
import { demand, inputChecker, type Checker } from '../../tools/validate.ts'
import { MessageFields } from '../routes/messages.ts'
import { PulseFields } from '../routes/pulses.ts'
import { Payload, SignalKind, Ttl } from '../routes/signals.ts'
import { Body, Id } from '../schemas.ts'
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
  hello: Body({
    ref: Type.Optional(Ref),
    api_key: Type.Optional(Type.String({ maxLength: 256 })),
    resume: Type.Optional(
      Type.Object({
        session: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }),
        cursor: Type.Object({ signals: Cursor, outbox: Cursor }),
      }),
    ),
  }),
  subscribe: Body({ ref: Ref, channels: Names, since: Type.Optional(Cursor) }),
  unsubscribe: Body({ ref: Ref, channels: Names }),
  publish: Body({
    ref: Ref,
    channel: Name,
    signal_type: Type.Optional(SignalKind),
    payload: Type.Optional(Payload),
    ttl_seconds: Type.Optional(Ttl),
  }),
  pulse: Body({ ref: Ref, ...PulseFields }),
  message: Body({ ref: Ref, ...MessageFields }),
  refuel: Type.Object({
    ref: Ref,
    tool: Type.String({ minLength: 1, maxLength: 64 }),
    task_id: Type.Optional(Id),
    backpack_id: Type.Optional(Id),
  }),
  ping: Body({ ref: Type.Optional(Ref) }),
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

/** A frame as it came in: of its type only that it is a text. */
export interface RawFrame {
  readonly type: string
  /** What its answer carries; null where it has none that could be one. */
  readonly ref: string | null
  /** The integers in it that a double cannot hold, as what they became. */
  readonly lost: ReadonlySet<number>
  /** All its fields but the type. */
  readonly given: Readonly<Record<string, unknown>>
}

/** Reads the type and the ref of a frame; its fields are not looked at. */
export function parseFrame(text: string): RawFrame {
  const { type, ...given } = read(text)
  if (typeof type !== 'string') throw new BadFrame('a frame has a type')
  const { ref } = given
  return { type, ref: typeof ref === 'string' ? ref : null, lost: lostIntegers(text), given }
}

/** Refuses a frame of an unknown type, and one whose fields are not those of its type. */
export function demandFields({ type, given, lost }: RawFrame): Frame {
  if (!isFrameType(type)) throw unknownType(type)
  refuseForbidden(given, '', 0, lost)
  demand(checkers[type](given))
  return { type, ...given } as unknown as Frame
}

const isFrameType = (type: string): type is FrameType => Object.hasOwn(FRAMES, type)

function unknownType(type: string): ServiceError {
  const known = Object.keys(FRAMES)
  const error = invalid('/type', `must be one of ${known.join(', ')}`)
  const meant = nearest(type, known)
  if (meant !== null) error.details['did_you_mean'] = meant
  return error
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

/**
 * What a body over HTTP may not have either: names that could reach a prototype, and numbers beyond a
 * double, which would be kept as null. What is too deep is refused with the fields.
 */
function refuseForbidden(
  value: unknown,
  pointer: string,
  depth: number,
  lost: ReadonlySet<number>,
): void {
  if (lost.has(value as number)) throw invalid(pointer, LOST_INTEGER)
  if (typeof value === 'number' && !Number.isFinite(value))
    throw invalid(pointer, 'must be a finite number')
  if (typeof value !== 'object' || value === null || depth > LIMITS.jsonDepth) return
  if (reachesPrototype(value)) throw invalid(pointer, 'has a forbidden name')
  for (const [name, inner] of Object.entries(value))
    refuseForbidden(inner, `${pointer}/${escapePointer(name)}`, depth + 1, lost)
}

function reachesPrototype(value: object): boolean {
  if (Object.hasOwn(value, '__proto__')) return true
  const own = Object.getOwnPropertyDescriptor(value, 'constructor')?.value as unknown
  return typeof own === 'object' && own !== null && Object.hasOwn(own, 'prototype')
}
