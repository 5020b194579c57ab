import type { FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { newApiKey, newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { fromUsdc, type Micros } from '../../core/money.ts'
import { SINGLE_LINE_TEXT_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import {
  WILDCARD_SCOPE,
  SCOPES_ALLOWED_FOR_BACKPACK_KEYS,
  API_KEY_SCOPES,
  toApiKeySpendingLimits,
  type ApiKeyRecord,
  type NewApiKey,
} from '../../persistence/agents/api-key-store.ts'
import {
  RequestUsdcAmountSchema,
  PATH_ID_PATTERN,
  DateTimeSchema,
  Nullable,
} from '../schemas/shared-schemas.ts'

/** Parses requests for new API keys. A new key never has more rights than the key that creates it. */

const MAX_KEY_LIFETIME_SECONDS = 10 * 365 * 86_400

/** Body of a request for a new key. */
export const NewApiKeyBody = Type.Object(
  {
    name: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, pattern: SINGLE_LINE_TEXT_PATTERN }),
    ),
    backpack_id: Type.Optional(
      Nullable(
        Type.String({
          pattern: PATH_ID_PATTERN,
          description:
            'Binds the key to this Backpack of yours: all its calls use that Backpack, and it cannot manage anything.',
        }),
      ),
    ),
    scopes: Type.Optional(
      Type.Array(Type.Enum([WILDCARD_SCOPE, ...API_KEY_SCOPES]), {
        minItems: 1,
        uniqueItems: true,
        description: 'By default those of the key that creates it; for a bound key all but `keys`.',
      }),
    ),
    cap_usdc: Type.Optional(Nullable(RequestUsdcAmountSchema('What this key may spend in all'))),
    cap_per_day_usdc: Type.Optional(
      Nullable(RequestUsdcAmountSchema('What this key may spend in a UTC day')),
    ),
    cap_per_month_usdc: Type.Optional(
      Nullable(RequestUsdcAmountSchema('What this key may spend in a UTC month')),
    ),
    expires_at: Type.Optional(Nullable(DateTimeSchema)),
    expires_in_seconds: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MAX_KEY_LIFETIME_SECONDS }),
    ),
    // Unknown fields are refused: a misspelt limit must not create a key without one.
  },
  { additionalProperties: false },
)

/** Returns the requested key; throws 403 when it has more rights than the creating key. */
export function toNewApiKey(
  request: FastifyRequest,
  wanted: Static<typeof NewApiKeyBody>,
  now: number,
): NewApiKey {
  const asking = requireApiKey(request)
  const { backpack_id: backpackId = null } = wanted
  const scopes = wanted.scopes ?? defaultScopes(asking, backpackId)
  if (backpackId !== null) assertBoundScopes(scopes)
  assertScopesWithin(asking, scopes)
  return {
    id: newUuidV7(now),
    agentId: request.agentId,
    secret: newApiKey(),
    name: wanted.name ?? 'key',
    scopes,
    ...toKeyCaps(wanted),
    backpackId,
    expiresAt: earlierDate(toKeyExpiry(wanted, now), asking.expiresAt),
    createdAt: new Date(now),
  }
}

/** Returns the default scopes: those of the creating key, without `keys` for a bound key. */
function defaultScopes({ scopes }: ApiKeyRecord, backpackId: string | null): string[] {
  if (backpackId === null) return [...scopes]
  return SCOPES_ALLOWED_FOR_BACKPACK_KEYS.filter(
    (scope) => scopes.includes(WILDCARD_SCOPE) || scopes.includes(scope),
  )
}

function assertBoundScopes(scopes: readonly string[]): void {
  const known: readonly string[] = SCOPES_ALLOWED_FOR_BACKPACK_KEYS
  if (scopes.length > 0 && scopes.every((scope) => known.includes(scope))) return
  throw invalidInputError(
    '/scopes',
    `of a bound key must be among ${SCOPES_ALLOWED_FOR_BACKPACK_KEYS.join(', ')}`,
  )
}

type CapName = 'cap_usdc' | 'cap_per_day_usdc' | 'cap_per_month_usdc'

function toKeyCaps(wanted: Static<typeof NewApiKeyBody>) {
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

function assertScopesWithin({ scopes: own }: ApiKeyRecord, scopes: readonly string[]): void {
  const missing = own.includes(WILDCARD_SCOPE) ? [] : scopes.filter((scope) => !own.includes(scope))
  if (missing.length === 0) return
  const detail = 'A key can only pass on the scopes it has.'
  throw new ServiceError('insufficient_scope', { detail, scopes: own, missing })
}

function toKeyExpiry(
  { expires_at: at, expires_in_seconds: seconds }: Static<typeof NewApiKeyBody>,
  now: number,
) {
  if (at !== undefined && at !== null && seconds !== undefined) {
    throw invalidInputError('/expires_in_seconds', 'must not be combined with expires_at')
  }
  if (seconds !== undefined) return new Date(now + seconds * 1_000)
  if (at === undefined || at === null) return null
  const expiry = new Date(at)
  // The format of a time permits the second 60; clocks of computers have none.
  if (Number.isNaN(expiry.getTime()))
    throw invalidInputError(
      '/expires_at',
      'must have seconds from 00 to 59: leap seconds are not kept',
    )
  if (expiry.getTime() > now && expiry.getTime() < now + MAX_KEY_LIFETIME_SECONDS * 1_000)
    return expiry
  throw invalidInputError('/expires_at', 'must be in the future, at most ten years ahead')
}

const earlierDate = (a: Date | null, b: Date | null): Date | null =>
  a === null ? b : b === null || a < b ? a : b

/** Returns the replacement of a key: the same terms, with no more rights than the creating key. */
export function toReplacementApiKey(
  asking: ApiKeyRecord,
  old: ApiKeyRecord,
  now: number,
): NewApiKey {
  assertScopesWithin(asking, old.scopes)
  const expiresAt = earlierDate(old.expiresAt, asking.expiresAt)
  return {
    ...toApiKeySpendingLimits(old),
    id: newUuidV7(now),
    agentId: old.agentId,
    secret: newApiKey(),
    name: old.name,
    scopes: old.scopes,
    expiresAt,
    createdAt: new Date(now),
  }
}

/** Returns the request's key; throws 401 without one. */
export function requireApiKey(request: FastifyRequest): ApiKeyRecord {
  const { apiKey } = request
  if (apiKey === null) throw new ServiceError('unauthenticated')
  return apiKey
}
