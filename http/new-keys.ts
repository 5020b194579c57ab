import type { FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import { invalid, ServiceError } from '../core/errors.ts'
import { newApiKey, newId } from '../core/ids.ts'
import { fromUsdc, type Micros } from '../core/money.ts'
import { LABEL } from '../core/said.ts'
import {
  ALL_SCOPES,
  BOUND_SCOPES,
  SCOPES,
  termsOf,
  type KeyRecord,
  type NewKey,
} from '../persistence/keys.ts'
import { assertUnbound } from './binding.ts'
import { demandUncapped } from './plugins/auth.ts'
import { Amount, ID_PATTERN, Instant, Nullable } from './schemas.ts'

const LONGEST_SECONDS = 10 * 365 * 86_400

/** What a request for a new key says. */
export const Wanted = Type.Object(
  {
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 64, pattern: LABEL })),
    backpack_id: Type.Optional(
      Nullable(
        Type.String({
          pattern: ID_PATTERN,
          description:
            'Binds the key to this Backpack of yours: every call with it acts there, and it manages nothing.',
        }),
      ),
    ),
    scopes: Type.Optional(
      Type.Array(Type.Enum([ALL_SCOPES, ...SCOPES]), {
        minItems: 1,
        uniqueItems: true,
        description: 'By default those of the asking key; of a bound key all but `keys`.',
      }),
    ),
    cap_usdc: Type.Optional(Nullable(Amount('What this key may spend in all'))),
    cap_per_day_usdc: Type.Optional(Nullable(Amount('What this key may spend in a UTC day'))),
    cap_per_month_usdc: Type.Optional(Nullable(Amount('What this key may spend in a UTC month'))),
    expires_at: Type.Optional(Nullable(Instant)),
    expires_in_seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: LONGEST_SECONDS })),
    // A misspelt limit must not make a key without one.
  },
  { additionalProperties: false },
)

/** The key that a request asks for; rejects one that is wider than the asking key (403). */
export function wantedKey(
  request: FastifyRequest,
  wanted: Static<typeof Wanted>,
  now: number,
): NewKey {
  const asking = uncapped(request)
  const { backpack_id: backpackId = null } = wanted
  const scopes = wanted.scopes ?? defaultScopes(asking, backpackId)
  if (backpackId !== null) assertBoundScopes(scopes)
  demandWithin(asking, scopes)
  return {
    id: newId(now),
    agentId: request.agentId,
    secret: newApiKey(),
    name: wanted.name ?? 'key',
    scopes,
    ...capsOf(wanted),
    backpackId,
    expiresAt: earlier(expiryOf(wanted, now), asking.expiresAt),
    createdAt: new Date(now),
  }
}

/** What a key may do where its request does not say: what the asking key may, for a bound key without `keys`. */
function defaultScopes({ scopes }: KeyRecord, backpackId: string | null): string[] {
  if (backpackId === null) return [...scopes]
  return BOUND_SCOPES.filter((scope) => scopes.includes(ALL_SCOPES) || scopes.includes(scope))
}

function assertBoundScopes(scopes: readonly string[]): void {
  const known: readonly string[] = BOUND_SCOPES
  if (scopes.length > 0 && scopes.every((scope) => known.includes(scope))) return
  throw invalid('/scopes', `of a bound key must be among ${BOUND_SCOPES.join(', ')}`)
}

type CapName = 'cap_usdc' | 'cap_per_day_usdc' | 'cap_per_month_usdc'

function capsOf(wanted: Static<typeof Wanted>) {
  const limit = (name: CapName): Micros | null => {
    const usdc = wanted[name] ?? null
    return usdc === null ? null : fromUsdc(usdc, `/${name}`)
  }
  return {
    cap: limit('cap_usdc'),
    capPerDay: limit('cap_per_day_usdc'),
    capPerMonth: limit('cap_per_month_usdc'),
  }
}

function demandWithin({ scopes: own }: KeyRecord, scopes: readonly string[]): void {
  const missing = own.includes(ALL_SCOPES) ? [] : scopes.filter((scope) => !own.includes(scope))
  if (missing.length === 0) return
  const detail = 'A key can only pass on the scopes it has.'
  throw new ServiceError('insufficient_scope', { detail, scopes: own, missing })
}

function expiryOf(
  { expires_at: at, expires_in_seconds: seconds }: Static<typeof Wanted>,
  now: number,
) {
  if (at !== undefined && at !== null && seconds !== undefined) {
    throw invalid('/expires_in_seconds', 'must not be given beside expires_at')
  }
  if (seconds !== undefined) return new Date(now + seconds * 1_000)
  if (at === undefined || at === null) return null
  const expiry = new Date(at)
  if (expiry.getTime() > now && expiry.getTime() < now + LONGEST_SECONDS * 1_000) return expiry
  throw invalid('/expires_at', 'must lie in the future, at most ten years ahead')
}

const earlier = (a: Date | null, b: Date | null): Date | null =>
  a === null ? b : b === null || a < b ? a : b

/** The key that takes the place of another one: with its terms, and never wider than the asking key. */
export function replacement(asking: KeyRecord, old: KeyRecord, now: number): NewKey {
  demandWithin(asking, old.scopes)
  const expiresAt = earlier(old.expiresAt, asking.expiresAt)
  return {
    ...termsOf(old),
    id: newId(now),
    agentId: old.agentId,
    secret: newApiKey(),
    name: old.name,
    scopes: old.scopes,
    expiresAt,
    createdAt: new Date(now),
  }
}

/**
 * The asking key, where it may make and rotate keys. A fresh key starts with its whole cap: one that is
 * capped could lift its own limit.
 */
export function uncapped(request: FastifyRequest): KeyRecord {
  const { apiKey } = request
  if (apiKey === null) throw new ServiceError('unauthenticated')
  assertUnbound(request, 'make or rotate keys')
  demandUncapped(request, 'make or rotate keys')
  return apiKey
}
