import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type, type Static } from 'typebox'
import { invalid, ServiceError } from '../../core/errors.ts'
import { isUuid, newApiKey, newId } from '../../core/ids.ts'
import { LIMITS } from '../../core/limits.ts'
import { fromUsdc, toUsdc } from '../../core/money.ts'
import { SAID } from '../../core/said.ts'
import {
  ALL_SCOPES,
  SCOPES,
  shownPrefix,
  type KeyRecord,
  type NewKey,
} from '../../persistence/keys.ts'
import type { Tx } from '../../persistence/once.ts'
import { answer, asked } from '../idempotency.ts'
import { demandUncapped } from '../plugins/auth.ts'
import {
  Amount,
  Body,
  failures,
  Id,
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
    scopes: Type.Optional(
      Type.Array(Type.Enum([ALL_SCOPES, ...SCOPES]), { minItems: 1, uniqueItems: true }),
    ),
    cap_usdc: Type.Optional(Nullable(Amount('What this key may spend in all'))),
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
      200: Type.Object({ id: Uuid, revoked: Type.Boolean(), revoked_at: Instant }),
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
        return { status: 200, body: { id: key.id, revoked: true, revoked_at: instant(at) } }
      }),
    )
    app.keyRing.forget(id)
    return result
  })
}

/** A new key is never wider than the one that asks for it. */
function wantedKey(request: FastifyRequest, wanted: Static<typeof Wanted>, now: number): NewKey {
  const asking = uncapped(request)
  const scopes = wanted.scopes ?? [...asking.scopes]
  demandWithin(asking, scopes)
  const { cap_usdc: cap } = wanted
  return {
    id: newId(now),
    agentId: request.agentId,
    secret: newApiKey(),
    name: wanted.name ?? 'key',
    scopes,
    cap: cap === undefined || cap === null ? null : fromUsdc(cap, '/cap_usdc'),
    expiresAt: earlier(expiryOf(wanted, now), asking.expiresAt),
    createdAt: new Date(now),
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
  const { name, scopes, cap, agentId } = old
  const asking = uncapped(request)
  demandWithin(asking, scopes)
  const expiresAt = earlier(old.expiresAt, asking.expiresAt)
  const id = newId(now)
  return {
    id,
    agentId,
    secret: newApiKey(),
    name,
    scopes,
    cap,
    expiresAt,
    createdAt: new Date(now),
  }
}

/** A fresh key starts with its whole cap: one that is capped could lift its own limit. */
function uncapped(request: FastifyRequest): KeyRecord {
  const { apiKey } = request
  if (apiKey === null) throw new ServiceError('unauthenticated')
  demandUncapped(request, 'make or rotate keys')
  return apiKey
}

const present = (key: KeyRecord) => ({
  id: key.id,
  name: key.name,
  prefix: key.prefix,
  scopes: [...key.scopes],
  cap_usdc: key.cap === null ? null : toUsdc(key.cap),
  expires_at: maybeInstant(key.expiresAt),
  created_at: instant(key.createdAt),
})

const shown = (key: NewKey) => ({
  api_key: key.secret,
  ...present({ ...key, prefix: shownPrefix(key.secret), revokedAt: null }),
})
