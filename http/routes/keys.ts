import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import { backpackGet } from '../../actors/commands/backpacks.ts'
import { schedulePauseOf } from '../../actors/commands/schedules.ts'
import { invalid, ServiceError } from '../../core/errors.ts'
import { isUuid, newApiKey, newId } from '../../core/ids.ts'
import { spendingIdOf } from '../../core/key-terms.ts'
import { LIMITS } from '../../core/limits.ts'
import { fromUsdc, toUsdc, type Micros } from '../../core/money.ts'
import { SAID } from '../../core/said.ts'
import {
  ALL_SCOPES,
  SCOPES,
  shownPrefix,
  termsOf,
  type KeyRecord,
  type NewKey,
} from '../../persistence/keys.ts'
import type { Tx } from '../../persistence/once.ts'
import { assertUnbound } from '../binding.ts'
import { answer, asked } from '../idempotency.ts'
import { demandUncapped } from '../plugins/auth.ts'
import {
  Amount,
  Body,
  failures,
  Id,
  ID_PATTERN,
  Instant,
  instant,
  maybeInstant,
  Nullable,
  ref,
  Usdc,
  Uuid,
} from '../schemas.ts'
import type { Services } from '../services.ts'

const LONGEST_SECONDS = 10 * 365 * 86_400

const Key = Type.Object(
  {
    id: Uuid,
    name: Type.String(),
    prefix: Type.String({ description: 'The first characters of the key.' }),
    scopes: Type.Array(Type.String()),
    cap_usdc: Nullable(Usdc),
    cap_per_day_usdc: Nullable(Usdc),
    cap_per_month_usdc: Nullable(Usdc),
    backpack_id: Nullable(
      Type.String({ description: 'The one Backpack that every call with the key acts in.' }),
    ),
    expires_at: Nullable(Instant),
    created_at: Instant,
    current: Type.Boolean({ description: 'Whether it is the key of this request.' }),
  },
  { $id: 'Key' },
)

const NewKeyAnswer = Type.Intersect([
  Type.Object({ api_key: Type.String({ description: 'Shown once.' }) }),
  Type.Omit(Key, ['current']),
])

const Wanted = Type.Object(
  {
    name: Type.Optional(Type.String({ minLength: 1, maxLength: 64, pattern: SAID })),
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

const config = { auth: 'key', scope: 'keys' } as const
const tags = ['keys']

const listKeys = {
  config,
  schema: {
    operationId: 'listKeys',
    summary: 'List your keys',
    tags,
    response: { 200: Type.Object({ keys: Type.Array(ref(Key)) }), ...failures },
  },
}

const createKey = {
  config: { ...config, secret: true } as const,
  schema: {
    operationId: 'createKey',
    summary: 'Make another key, with what it may do, spend, and how long it lives',
    tags,
    body: Wanted,
    response: { 200: NewKeyAnswer, ...failures },
  },
}

const rotateKey = {
  config: { ...config, secret: true } as const,
  schema: {
    operationId: 'rotateKey',
    summary: 'Replace a key; the old one works until the grace period ends',
    tags,
    body: Body({
      key_id: Type.Optional(Uuid),
      grace_seconds: Type.Optional(
        Type.Integer({ minimum: 0, maximum: 30 * 86_400, default: LIMITS.keyGraceSeconds }),
      ),
    }),
    response: {
      200: Type.Intersect([
        NewKeyAnswer,
        Type.Object({ replaced_key_id: Uuid, replaced_key_expires_at: Instant }),
      ]),
      ...failures,
    },
  },
}

const revokeKey = {
  config,
  schema: {
    operationId: 'revokeKey',
    summary: 'Revoke a key at once, on every node',
    tags,
    params: Type.Object({ id: Id }),
    response: {
      200: Type.Object({
        id: Uuid,
        revoked: Type.Boolean(),
        revoked_at: Instant,
        paused_schedules: Type.Array(Uuid, {
          description: 'Schedules that ran under it: they are paused until a key enables them.',
        }),
      }),
      ...failures,
    },
  },
}

/** The keys of an agent: decision 40. */
export const keyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { keys, once, clock } = services
  app.addSchema(Key)

  app.get('/api/keys', listKeys, async ({ agentId, apiKey }) => {
    const mine = await keys.listOf(agentId)
    return { keys: mine.map((key) => ({ ...present(key), current: key.id === apiKey?.id })) }
  })

  app.post('/api/keys', createKey, async (request, reply) => {
    const key = wantedKey(request, request.body, clock.now())
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        if (key.backpackId !== null) await assertBindable(services, request.agentId, key.backpackId)
        if (!(await keys.add(tx, key, LIMITS.keys))) {
          throw new ServiceError('limit_reached', { limit: LIMITS.keys })
        }
        return { status: 200, body: shown(key) }
      }),
    )
  })

  app.post('/api/keys/rotate', rotateKey, async (request, reply) => {
    const { key_id, grace_seconds: grace = LIMITS.keyGraceSeconds } = request.body
    const id = key_id ?? request.apiKey?.id ?? ''
    const result = await answer(
      reply,
      once.write(asked(request), async (tx) => ({
        status: 200,
        body: await rotate(services, tx, request, { id, grace }),
      })),
    )
    app.keyRing.forget(id)
    return result
  })

  app.delete('/api/keys/:id', revokeKey, async (request, reply) => {
    const { id } = request.params
    if (id !== request.apiKey?.id) demandUncapped(request, 'revoke other keys')
    const result = await answer(
      reply,
      once.write(asked(request), async (tx) => {
        const key = isUuid(id) ? await keys.lock(tx, request.agentId, id) : null
        if (key === null) throw new ServiceError('key_not_found')
        const at = new Date(clock.now())
        await keys.revoke(tx, key.id, at)
        const paused_schedules = await pauseSchedules(services, key)
        const body = { id: key.id, revoked: true, revoked_at: instant(at), paused_schedules }
        return { status: 200, body }
      }),
    )
    app.keyRing.forget(id)
    return result
  })
}

/**
 * Pauses what runs under a key that is being revoked. It commits by itself, a moment before the
 * revocation does: a run is refused by the state of its key in any case. Where a rotation has handed
 * the spending of the key to another one, that one goes on running them.
 */
async function pauseSchedules({ actors, keys }: Services, key: KeyRecord): Promise<string[]> {
  const keyId = spendingIdOf(key)
  const heir = await keys.heirOf(keyId)
  if (heir !== null && heir.terms.id !== key.id) return []
  return actors.ask(key.agentId, schedulePauseOf, { keyId, reason: 'key_revoked' })
}

/** A new key is never wider than the one that asks for it. */
function wantedKey(request: FastifyRequest, wanted: Static<typeof Wanted>, now: number): NewKey {
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

const BOUND_SCOPES: readonly string[] = SCOPES.filter((scope) => scope !== 'keys')

/** What a key may do where its request does not say: what the asking key may, for a bound key without `keys`. */
function defaultScopes({ scopes }: KeyRecord, backpackId: string | null): string[] {
  if (backpackId === null) return [...scopes]
  return BOUND_SCOPES.filter((scope) => scopes.includes(ALL_SCOPES) || scopes.includes(scope))
}

function assertBoundScopes(scopes: readonly string[]): void {
  if (scopes.length > 0 && scopes.every((scope) => BOUND_SCOPES.includes(scope))) return
  throw invalid('/scopes', `of a bound key must be among ${BOUND_SCOPES.join(', ')}`)
}

/** A key is bound to a Backpack of its own agent that has not been revoked. One that has expired can be renewed. */
async function assertBindable({ actors }: Services, agentId: string, backpackId: string) {
  const touch = [{ kind: 'backpack', id: backpackId }] as const
  const { state } = await actors.ask(agentId, backpackGet, { backpackId }, { touch })
  if (state === 'revoked') throw new ServiceError('REVOKED', { backpack_id: backpackId })
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

/** Adds the new key and says when the old one ends: after its grace, or earlier by itself. */
async function rotate(
  { keys, clock }: Services,
  tx: Tx,
  request: FastifyRequest,
  { id, grace }: { id: string; grace: number },
) {
  const old = await keys.lock(tx, request.agentId, id)
  const now = clock.now()
  const gone = old === null || (old.expiresAt !== null && old.expiresAt.getTime() <= now)
  if (gone) throw new ServiceError('key_not_found')
  const ends = new Date(now + grace * 1_000)
  const key = replacement(request, old, now)
  await keys.expire(tx, old.id, ends)
  if (!(await keys.add(tx, key, LIMITS.keys + 1))) {
    throw new ServiceError('limit_reached', { limit: LIMITS.keys })
  }
  const until = old.expiresAt !== null && old.expiresAt < ends ? old.expiresAt : ends
  return { ...shown(key), replaced_key_id: old.id, replaced_key_expires_at: instant(until) }
}

function replacement(request: FastifyRequest, old: KeyRecord, now: number): NewKey {
  const asking = uncapped(request)
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

/** A fresh key starts with its whole cap: one that is capped could lift its own limit. */
function uncapped(request: FastifyRequest): KeyRecord {
  const { apiKey } = request
  if (apiKey === null) throw new ServiceError('unauthenticated')
  assertUnbound(request, 'make or rotate keys')
  demandUncapped(request, 'make or rotate keys')
  return apiKey
}

const maybeUsdc = (amount: Micros | null) => (amount === null ? null : toUsdc(amount))

const present = (key: KeyRecord) => ({
  id: key.id,
  name: key.name,
  prefix: key.prefix,
  scopes: [...key.scopes],
  cap_usdc: maybeUsdc(key.cap),
  cap_per_day_usdc: maybeUsdc(key.capPerDay),
  cap_per_month_usdc: maybeUsdc(key.capPerMonth),
  backpack_id: key.backpackId,
  expires_at: maybeInstant(key.expiresAt),
  created_at: instant(key.createdAt),
})

const shown = (key: NewKey) => ({
  api_key: key.secret,
  ...present({ ...key, prefix: shownPrefix(key.secret), revokedAt: null }),
})
