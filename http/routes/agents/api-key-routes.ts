import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type, type Static } from 'typebox'
import { getBackpackCommand } from '../../../actors/commands/backpacks-commands.ts'
import { pauseSchedulesOfKeyCommand } from '../../../actors/commands/schedule-aggregate-commands.ts'
import { invalidInputError, ServiceError } from '../../../core/errors.ts'
import { isUuid } from '../../../core/ids-and-api-keys.ts'
import { keyFamilyIdForSchedules } from '../../../domain/api-key-spending-limits.ts'
import { LIMITS } from '../../../core/limits.ts'
import { toUsdc, type Micros } from '../../../core/money.ts'
import {
  apiKeyDisplayPrefix,
  type ApiKeyRecord,
  type NewApiKey,
} from '../../../persistence/agents/api-key-store.ts'
import type { DatabaseTransaction } from '../../../persistence/idempotency/idempotent-writes.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import { assertKeyManagerRemains } from '../../auth/api-key-permissions.ts'
import {
  toReplacementApiKey,
  requireApiKey,
  NewApiKeyBody,
  toNewApiKey,
} from '../../auth/new-api-key-request.ts'
import { assertUncappedKey } from '../../plugins/auth.ts'
import {
  StrictBody,
  errorResponses,
  PathIdSchema,
  DateTimeSchema,
  toIsoTime,
  toIsoTimeOrNull,
  Nullable,
  schemaRef,
  ResponseUsdcAmountSchema,
  UuidSchema,
} from '../../schemas/shared-schemas.ts'
import type { HttpServices } from '../../http-config-and-service-types.ts'

/** Routes for an agent's API keys (decision 40). */

const ApiKeySchema = Type.Object(
  {
    key_id: UuidSchema,
    id: UuidSchema,
    name: Type.String(),
    prefix: Type.String({ description: 'The first characters of the key.' }),
    scopes: Type.Array(Type.String()),
    cap_usdc: Nullable(ResponseUsdcAmountSchema),
    cap_per_day_usdc: Nullable(ResponseUsdcAmountSchema),
    cap_per_month_usdc: Nullable(ResponseUsdcAmountSchema),
    backpack_id: Nullable(
      Type.String({ description: 'The Backpack that all calls with the key use.' }),
    ),
    expires_at: Nullable(DateTimeSchema),
    created_at: DateTimeSchema,
    current: Type.Boolean({ description: 'Whether it is the key of this request.' }),
  },
  { $id: 'Key' },
)

const NewKeyResponse = Type.Intersect([
  Type.Object({ api_key: Type.String({ description: 'Shown once.' }) }),
  Type.Omit(ApiKeySchema, ['current']),
])

const config = {
  auth: 'key',
  scope: 'keys',
  rate: 'manage',
  servesFrozen: true,
  ownerSession: true,
} as const
const tags = ['keys']

const listKeys = {
  config,
  schema: {
    operationId: 'listKeys',
    summary: 'List your keys',
    tags,
    response: {
      200: Type.Object({
        keys: Type.Array(schemaRef(ApiKeySchema)),
        count: Type.Integer(),
        next_cursor: Type.Null(),
      }),
      ...errorResponses,
    },
  },
}

const createKey = {
  config: { ...config, secret: true } as const,
  schema: {
    operationId: 'createKey',
    summary: 'Create a key with scopes, spending caps and an expiry',
    tags,
    body: NewApiKeyBody,
    response: { 200: NewKeyResponse, ...errorResponses },
  },
}

const rotateKey = {
  config: { ...config, secret: true } as const,
  schema: {
    operationId: 'rotateKey',
    summary: 'Replace a key; the old one works until the grace period ends',
    tags,
    body: StrictBody({
      key_id: Type.Optional(UuidSchema),
      grace_seconds: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 30 * 86_400,
          description: `How long the old key stays valid; ${LIMITS.keyGraceSeconds} by default.`,
        }),
      ),
      compromised: Type.Optional(
        Type.Boolean({
          description:
            'Ends the old key at once on every node, deletes the secrets stored for replays of its requests, and pauses its schedules.',
        }),
      ),
    }),
    response: {
      200: Type.Intersect([
        NewKeyResponse,
        Type.Object({
          replaced_key_id: UuidSchema,
          replaced_key_expires_at: DateTimeSchema,
          paused_schedules: Type.Array(UuidSchema, {
            description:
              'With `compromised`, the schedules of the old key, which stay paused until a key enables them. Otherwise they continue under the new key.',
          }),
        }),
      ]),
      ...errorResponses,
    },
  },
}

const revokeKey = {
  // Its own; the handler refuses another.
  config: { ...config, capped: true } as const,
  schema: {
    operationId: 'revokeKey',
    summary: 'Revoke a key at once, on every node',
    tags,
    params: Type.Object({ id: PathIdSchema }),
    response: {
      200: Type.Object({
        id: UuidSchema,
        revoked: Type.Boolean(),
        revoked_at: DateTimeSchema,
        paused_schedules: Type.Array(UuidSchema, {
          description: 'Its schedules, which stay paused until a key enables them.',
        }),
      }),
      ...errorResponses,
    },
  },
}

type RotationBody = Static<(typeof rotateKey)['schema']['body']>

/** Create, list, rotate and revoke API keys. */
export const apiKeyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { keys, once, clock } = services
  app.addSchema(ApiKeySchema)

  app.get('/api/keys', listKeys, async ({ agentId, apiKey }) => {
    const mine = await keys.listOf(agentId)
    const shownKeys = mine.map((key) => ({ ...present(key), current: key.id === apiKey?.id }))
    return { keys: shownKeys, count: shownKeys.length, next_cursor: null }
  })

  app.post('/api/keys', createKey, async (request, reply) => {
    const key = toNewApiKey(request, request.body, clock.now())
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        if (key.backpackId !== null)
          await assertBackpackBindable(services, request.agentId, key.backpackId)
        if (!(await keys.add(tx, key, LIMITS.keys))) {
          throw new ServiceError('limit_reached', { limit: LIMITS.keys })
        }
        return { status: 200, body: presentNewKey(key) }
      }),
    )
  })

  app.post('/api/keys/rotate', rotateKey, async (request, reply) => {
    const asking = requireApiKey(request)
    const id = request.body.key_id ?? asking.id
    const ending = toKeyRotationEnd(request.body)
    const result = await sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => ({
        status: 200,
        body: await rotateApiKey(services, tx, asking, { id, ...ending }),
      })),
    )
    app.keyRing.invalidate(id)
    return result
  })

  app.delete('/api/keys/:id', revokeKey, async (request, reply) => {
    const { id } = request.params
    if (id !== request.apiKey?.id) assertUncappedKey(request, 'revoke other keys')
    const result = await sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const at = new Date(clock.now())
        const working = await keys.holdAll(tx, request.agentId, at)
        const key = isUuid(id) ? await keys.lock(tx, request.agentId, id) : null
        if (key === null) throw new ServiceError('key_not_found')
        assertKeyManagerRemains(
          key,
          working.filter((other) => other.id !== key.id),
        )
        await keys.revoke(tx, key.id, at)
        const paused_schedules = await pauseSchedules(services, key)
        const body = { id: key.id, revoked: true, revoked_at: toIsoTime(at), paused_schedules }
        return { status: 200, body }
      }),
    )
    app.keyRing.invalidate(id)
    return result
  })
}

/**
 * Pauses the schedules of a key before it is revoked, in a commit of its own: a run checks the key's state in
 * any case. Where a rotation handed them to another key of the family, that key goes on running them.
 */
async function pauseSchedules(
  { actors, keys }: HttpServices,
  key: ApiKeyRecord,
): Promise<string[]> {
  const keyId = keyFamilyIdForSchedules(key)
  const successor = await keys.successorOf(keyId)
  if (successor !== null && successor.terms.id !== key.id) return []
  return actors.ask(key.agentId, pauseSchedulesOfKeyCommand, { keyId, reason: 'key_revoked' })
}

/** Throws unless the Backpack is the agent's own and not revoked. An expired one can be renewed. */
async function assertBackpackBindable(
  { actors }: HttpServices,
  agentId: string,
  backpackId: string,
) {
  const touch = [{ kind: 'backpack', id: backpackId }] as const
  const { state } = await actors.ask(agentId, getBackpackCommand, { backpackId }, { touch })
  if (state === 'revoked') throw new ServiceError('REVOKED', { backpack_id: backpackId })
}

/** How the old key of a rotation ends. */
interface KeyRotationEnd {
  readonly graceSeconds: number
  readonly compromised: boolean
}

function toKeyRotationEnd({
  grace_seconds: grace,
  compromised = false,
}: RotationBody): KeyRotationEnd {
  if (compromised && (grace ?? 0) > 0)
    throw invalidInputError(
      '/grace_seconds',
      'must be 0 or absent beside compromised: the key ends at once',
    )
  return { graceSeconds: compromised ? 0 : (grace ?? LIMITS.keyGraceSeconds), compromised }
}

/**
 * Adds the new key and returns when the old one ends: at once, after its grace period, or at its own earlier
 * expiry.
 */
async function rotateApiKey(
  services: HttpServices,
  tx: DatabaseTransaction,
  asking: ApiKeyRecord,
  { id, graceSeconds, compromised }: KeyRotationEnd & { id: string },
) {
  const { keys, clock } = services
  const { agentId } = asking
  const now = clock.now()
  const working = await keys.holdAll(tx, agentId, new Date(now))
  const old = await keys.lock(tx, agentId, id)
  const gone = old === null || (old.expiresAt !== null && old.expiresAt.getTime() <= now)
  if (gone) throw new ServiceError('key_not_found')
  const ends = new Date(now + graceSeconds * 1_000)
  const replacement = toReplacementApiKey(asking, old, now)
  const key = compromised ? { ...replacement, familyId: replacement.id } : replacement
  assertKeyManagerRemains(old, [...working.filter((other) => other.id !== old.id), key])
  if (compromised) {
    await keys.revoke(tx, old.id, ends)
    await keys.leaveFamily(tx, agentId, keyFamilyIdForSchedules(old), key.id)
    await keys.forgetSecrets(tx, agentId, old.id)
  } else await keys.expire(tx, old.id, ends)
  if (!(await keys.add(tx, key, LIMITS.keys + 1))) {
    throw new ServiceError('limit_reached', { limit: LIMITS.keys })
  }
  const until = old.expiresAt !== null && old.expiresAt < ends ? old.expiresAt : ends
  // All are paused: only the owner can tell which were created by somebody with the leaked key.
  const paused = { keyId: keyFamilyIdForSchedules(old), reason: 'key_revoked' } as const
  const paused_schedules = compromised
    ? await services.actors.ask(agentId, pauseSchedulesOfKeyCommand, paused)
    : []
  const replaced = { replaced_key_id: old.id, replaced_key_expires_at: toIsoTime(until) }
  return { ...presentNewKey(key), ...replaced, paused_schedules }
}

const toUsdcOrNull = (amount: Micros | null) => (amount === null ? null : toUsdc(amount))

const present = (key: ApiKeyRecord) => ({
  key_id: key.id,
  id: key.id,
  name: key.name,
  prefix: key.prefix,
  scopes: [...key.scopes],
  cap_usdc: toUsdcOrNull(key.cap),
  cap_per_day_usdc: toUsdcOrNull(key.capPerDay),
  cap_per_month_usdc: toUsdcOrNull(key.capPerMonth),
  backpack_id: key.backpackId,
  expires_at: toIsoTimeOrNull(key.expiresAt),
  created_at: toIsoTime(key.createdAt),
})

const presentNewKey = (key: NewApiKey) => ({
  api_key: key.secret,
  ...present({ ...key, prefix: apiKeyDisplayPrefix(key.secret), revokedAt: null }),
})
