import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'
import { SAID } from '../../core/said.ts'
import type { KeyringEntry } from '../../persistence/keyring.ts'
import { assertBytes } from '../body.ts'
import { answer, asked } from '../idempotency.ts'
import { Body, failures, Instant, instant, ref } from '../schemas.ts'
import { config, demandActive, ownBackpack, params, Removed, tags } from './backpack-store.ts'

const Secret = Type.Object(
  {
    name: Type.String(),
    hosts: Type.Array(Type.String(), { description: 'The only hosts it may be sent to.' }),
    created_at: Instant,
  },
  { $id: 'KeyringSecret' },
)
const SecretName = Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,63}$' })
const Host = Type.String({
  maxLength: 253,
  pattern: '^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?(:[0-9]{1,5})?$',
  description: 'A host name in lower case; with a port for that one only, else for any.',
})

const putSecret = {
  config,
  schema: {
    operationId: 'putSecret',
    summary: 'Keep a third-party secret, encrypted; it is never shown again',
    tags,
    params,
    body: Body({
      name: SecretName,
      secret: Type.String({
        minLength: 1,
        pattern: SAID,
        description: `At most ${LIMITS.keyringSecretBytes} bytes.`,
      }),
      hosts: Type.Optional(Type.Array(Host, { maxItems: 20, uniqueItems: true })),
    }),
    response: { 200: ref(Secret), ...failures },
  },
}

const listSecrets = {
  config: { ...config, bound: 'reads' } as const,
  schema: {
    operationId: 'listSecrets',
    summary: 'The names of the secrets a Backpack keeps',
    tags,
    params,
    response: {
      200: Type.Object({
        secrets: Type.Array(ref(Secret)),
        count: Type.Integer(),
        next_cursor: Type.Null(),
      }),
      ...failures,
    },
  },
}

const removeSecret = {
  config,
  schema: {
    operationId: 'removeSecret',
    summary: 'Forget a secret',
    tags,
    params,
    querystring: Type.Object({ name: SecretName }),
    response: { 200: Removed, ...failures },
  },
}

/** The third-party secrets a Backpack keeps (decision 39). */
export const keyringRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { clock, keyring, once } = services
  app.addSchema(Secret)

  app.post('/api/backpack/:id/keyring', putSecret, async (request, reply) => {
    const { name, secret, hosts = [] } = request.body
    assertBytes(secret, LIMITS.keyringSecretBytes, '/secret')
    await demandActive(services, request)
    const place = { agentId: request.agentId, backpackId: request.params.id, name }
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        const at = new Date(clock.now())
        const entry = await keyring.put(tx, place, secret, hosts, at, LIMITS.keyringSecrets)
        if (entry === null)
          throw new ServiceError('limit_reached', { limit: LIMITS.keyringSecrets })
        return { status: 200, body: present(entry) }
      }),
    )
  })

  app.get('/api/backpack/:id/keyring', listSecrets, async (request) => {
    const { backpackId } = await ownBackpack(services, request)
    const secrets = (await keyring.listOf(backpackId)).map(present)
    return { secrets, count: secrets.length, next_cursor: null }
  })

  app.delete('/api/backpack/:id/keyring', removeSecret, async (request, reply) => {
    const { backpackId } = await ownBackpack(services, request)
    return answer(
      reply,
      once.write(asked(request), async (tx) => {
        const removed = await keyring.remove(tx, backpackId, request.query.name)
        if (!removed) throw new ServiceError('entry_not_found')
        return { status: 200, body: { removed } }
      }),
    )
  })
}

const present = ({ name, hosts, createdAt }: KeyringEntry) => ({
  name,
  hosts: [...hosts],
  created_at: instant(createdAt),
})
