import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type, type Static } from 'typebox'
import { backpackGet } from '../../actors/commands/backpacks.ts'
import { schedulePauseOf } from '../../actors/commands/schedules.ts'
import { invalid, ServiceError } from '../../core/errors.ts'
import { isUuid } from '../../core/ids.ts'
import { familyIdOf } from '../../core/key-terms.ts'
import { LIMITS } from '../../core/limits.ts'
import { toUsdc, type Micros } from '../../core/money.ts'
import { shownPrefix, type KeyRecord, type NewKey } from '../../persistence/keys.ts'
import type { Tx } from '../../persistence/once.ts'
import { answer, asked } from '../idempotency.ts'
import { assertManagedWithout } from '../key-powers.ts'
import { replacement, uncapped, Wanted, wantedKey } from '../new-keys.ts'
import { demandUncapped } from '../plugins/auth.ts'
import {
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

const Key = Type.Object(
  {
    key_id: Uuid,
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

const config = { auth: 'key', scope: 'keys', rate: 'manage' } as const
const tags = ['keys']

const listKeys = {
  config,
  schema: {
    operationId: 'listKeys',
    summary: 'List your keys',
    tags,
    response: {
      200: Type.Object({
        keys: Type.Array(ref(Key)),
        count: Type.Integer(),
        next_cursor: Type.Null(),
      }),
      ...failures,
    },
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
        Type.Integer({
          minimum: 0,
          maximum: 30 * 86_400,
          description: `How long the old key works on; ${LIMITS.keyGraceSeconds} by default.`,
        }),
      ),
      compromised: Type.Optional(
        Type.Boolean({
          description:
            'The old key ends at once, on every node, secrets kept for repetitions of its requests are dropped, and schedules that ran under it are paused.',
        }),
      ),
    }),
    response: {
      200: Type.Intersect([
        NewKeyAnswer,
        Type.Object({
          replaced_key_id: Uuid,
          replaced_key_expires_at: Instant,
          paused_schedules: Type.Array(Uuid, {
            description:
              'With `compromised`, the schedules that ran under the old key: they are paused until a key enables them. Without it the new key goes on running them.',
          }),
        }),
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

type RotationBody = Static<(typeof rotateKey)['schema']['body']>

/** The keys of an agent: decision 40. */
export const keyRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { keys, once, clock } = services
  app.addSchema(Key)

  app.get('/api/keys', listKeys, async ({ agentId, apiKey }) => {
    const mine = await keys.listOf(agentId)
    const shownKeys = mine.map((key) => ({ ...present(key), current: key.id === apiKey?.id }))
    return { keys: shownKeys, count: shownKeys.length, next_cursor: null }
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
    const asking = uncapped(request)
    const id = request.body.key_id ?? asking.id
    const ending = endingOf(request.body)
    const result = await answer(
      reply,
      once.write(asked(request), async (tx) => ({
        status: 200,
        body: await rotate(services, tx, asking, { id, ...ending }),
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
        const at = new Date(clock.now())
        const working = await keys.holdAll(tx, request.agentId, at)
        const key = isUuid(id) ? await keys.lock(tx, request.agentId, id) : null
        if (key === null) throw new ServiceError('key_not_found')
        assertManagedWithout(
          key,
          working.filter((other) => other.id !== key.id),
        )
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
 * them to another key of its family, that one goes on running them.
 */
async function pauseSchedules({ actors, keys }: Services, key: KeyRecord): Promise<string[]> {
  const keyId = familyIdOf(key)
  const heir = await keys.heirOf(keyId)
  if (heir !== null && heir.terms.id !== key.id) return []
  return actors.ask(key.agentId, schedulePauseOf, { keyId, reason: 'key_revoked' })
}

/** A key is bound to a Backpack of its own agent that has not been revoked. One that has expired can be renewed. */
async function assertBindable({ actors }: Services, agentId: string, backpackId: string) {
  const touch = [{ kind: 'backpack', id: backpackId }] as const
  const { state } = await actors.ask(agentId, backpackGet, { backpackId }, { touch })
  if (state === 'revoked') throw new ServiceError('REVOKED', { backpack_id: backpackId })
}

/** How the old key of a rotation ends. */
interface Ending {
  readonly graceSeconds: number
  readonly compromised: boolean
}

function endingOf({ grace_seconds: grace, compromised = false }: RotationBody): Ending {
  if (compromised && (grace ?? 0) > 0)
    throw invalid('/grace_seconds', 'must be 0 or absent beside compromised: the key ends at once')
  return { graceSeconds: compromised ? 0 : (grace ?? LIMITS.keyGraceSeconds), compromised }
}

/** Adds the new key and says when the old one ends: at once, after its grace, or earlier by itself. */
async function rotate(
  services: Services,
  tx: Tx,
  asking: KeyRecord,
  { id, graceSeconds, compromised }: Ending & { id: string },
) {
  const { keys, clock } = services
  const { agentId } = asking
  const now = clock.now()
  const working = await keys.holdAll(tx, agentId, new Date(now))
  const old = await keys.lock(tx, agentId, id)
  const gone = old === null || (old.expiresAt !== null && old.expiresAt.getTime() <= now)
  if (gone) throw new ServiceError('key_not_found')
  const ends = new Date(now + graceSeconds * 1_000)
  const heir = replacement(asking, old, now)
  const key = compromised ? { ...heir, familyId: heir.id } : heir
  assertManagedWithout(old, [...working.filter((other) => other.id !== old.id), key])
  if (compromised) {
    await keys.revoke(tx, old.id, ends)
    await keys.leaveFamily(tx, agentId, familyIdOf(old), key.id)
    await keys.forgetSecrets(tx, agentId, old.id)
  } else await keys.expire(tx, old.id, ends)
  if (!(await keys.add(tx, key, LIMITS.keys + 1))) {
    throw new ServiceError('limit_reached', { limit: LIMITS.keys })
  }
  const until = old.expiresAt !== null && old.expiresAt < ends ? old.expiresAt : ends
  // Which of them were made by whom the key had leaked to is for its owner to say.
  const paused = { keyId: familyIdOf(old), reason: 'key_revoked' } as const
  const paused_schedules = compromised
    ? await services.actors.ask(agentId, schedulePauseOf, paused)
    : []
  const replaced = { replaced_key_id: old.id, replaced_key_expires_at: instant(until) }
  return { ...shown(key), ...replaced, paused_schedules }
}

const maybeUsdc = (amount: Micros | null) => (amount === null ? null : toUsdc(amount))

const present = (key: KeyRecord) => ({
  key_id: key.id,
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
