import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { ServiceError } from '../../../core/errors.ts'
import { LIMITS } from '../../../core/limits.ts'
import { NOT_BLANK_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import type { KeyringEntry } from '../../../persistence/agents/backpack-keyring-store.ts'
import { assertMaxBytes } from '../../plugins/body-parser.ts'
import { sendIdempotentReply, toIdempotentRequest } from '../../http-idempotency-keys.ts'
import {
  StrictBody,
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  schemaRef,
} from '../../schemas/shared-schemas.ts'
import {
  backpackRouteConfig,
  assertPathBackpackActive,
  requireOwnBackpackOfPath,
  BackpackPathParams,
  RemovalReplySchema,
  backpackRouteTags,
} from './shared-by-backpack-subresource-routes.ts'

/** Routes for the keyring of a Backpack (decision 39). */

const KeyringSecretSchema = Type.Object(
  {
    name: Type.String(),
    hosts: Type.Array(Type.String(), { description: 'The only hosts it may be sent to.' }),
    created_at: DateTimeSchema,
  },
  { $id: 'KeyringSecret' },
)
const SecretNameSchema = Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,63}$' })
const HostSchema = Type.String({
  maxLength: 253,
  pattern: '^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?(:[0-9]{1,5})?$',
  description: 'A host name in lower case; with a port, only that port is allowed.',
})

const putSecret = {
  config: { ...backpackRouteConfig, keeps: 0 } as const,
  schema: {
    operationId: 'putSecret',
    summary: 'Store a third-party secret, encrypted; it is never shown again',
    tags: backpackRouteTags,
    params: BackpackPathParams,
    body: StrictBody({
      name: SecretNameSchema,
      secret: Type.String({
        minLength: 1,
        pattern: NOT_BLANK_PATTERN,
        description: `At most ${LIMITS.keyringSecretBytes} bytes.`,
      }),
      hosts: Type.Optional(Type.Array(HostSchema, { maxItems: 20, uniqueItems: true })),
    }),
    response: { 200: schemaRef(KeyringSecretSchema), ...errorResponses },
  },
}

const listSecrets = {
  config: { ...backpackRouteConfig, bound: 'reads' } as const,
  schema: {
    operationId: 'listSecrets',
    summary: 'The names of the secrets in a Backpack',
    tags: backpackRouteTags,
    params: BackpackPathParams,
    response: {
      200: Type.Object({
        secrets: Type.Array(schemaRef(KeyringSecretSchema)),
        count: Type.Integer(),
        next_cursor: Type.Null(),
      }),
      ...errorResponses,
    },
  },
}

const removeSecret = {
  config: { ...backpackRouteConfig, servesFrozen: true } as const,
  schema: {
    operationId: 'removeSecret',
    summary: 'Delete a secret',
    tags: backpackRouteTags,
    params: BackpackPathParams,
    querystring: Type.Object({ name: SecretNameSchema }),
    response: { 200: RemovalReplySchema, ...errorResponses },
  },
}

/** Third-party secrets stored in a Backpack. */
export const keyringSecretRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { clock, keyring, once } = services
  app.addSchema(KeyringSecretSchema)

  app.post('/api/backpack/:id/keyring', putSecret, async (request, reply) => {
    const { name, secret, hosts = [] } = request.body
    assertMaxBytes(secret, LIMITS.keyringSecretBytes, '/secret')
    await assertPathBackpackActive(services, request)
    const place = { agentId: request.agentId, backpackId: request.params.id, name }
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const at = new Date(clock.now())
        const entry = await keyring.put(tx, place, secret, hosts, at, LIMITS.keyringSecrets)
        if (entry === null)
          throw new ServiceError('limit_reached', { limit: LIMITS.keyringSecrets })
        return { status: 200, body: presentSecret(entry) }
      }),
    )
  })

  app.get('/api/backpack/:id/keyring', listSecrets, async (request) => {
    const { backpackId } = await requireOwnBackpackOfPath(services, request)
    const secrets = (await keyring.listOf(backpackId)).map(presentSecret)
    return { secrets, count: secrets.length, next_cursor: null }
  })

  app.delete('/api/backpack/:id/keyring', removeSecret, async (request, reply) => {
    const { backpackId } = await requireOwnBackpackOfPath(services, request)
    return sendIdempotentReply(
      reply,
      once.runTransaction(toIdempotentRequest(request), async (tx) => {
        const removed = await keyring.remove(tx, backpackId, request.query.name)
        if (!removed) throw new ServiceError('entry_not_found')
        return { status: 200, body: { removed } }
      }),
    )
  })
}

const presentSecret = ({ name, hosts, createdAt }: KeyringEntry) => ({
  name,
  hosts: [...hosts],
  created_at: toIsoTime(createdAt),
})
