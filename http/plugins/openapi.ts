import swagger from '@fastify/swagger'
import type { FastifyInstance, FastifySchema } from 'fastify'
import { Type } from 'typebox'
import type { HttpServices } from '../http-services.ts'

/** The OpenAPI document of the service. */

const TAGS = [
  { name: 'agents', description: 'Onboarding, identity and contacts.' },
  { name: 'tools', description: 'The catalogue and calls.' },
  { name: 'funds', description: 'Credits, transfers and tips.' },
  { name: 'tasks', description: 'Budget-capped task sessions.' },
  { name: 'backpacks', description: 'Tool lists, spend limits and stores of an identity.' },
  { name: 'signals', description: 'Signals on channels, pulses, and the streams of both.' },
  { name: 'messages', description: 'Messages between agents.' },
  { name: 'keys', description: 'API keys.' },
  { name: 'service', description: 'Health and documentation.' },
]

/** Every write accepts an Idempotency-Key (decision 16). */
const IdempotencyHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({ minLength: 1, maxLength: 255, description: 'Repeat safely for 24 hours.' }),
  ),
})

/** Builds the OpenAPI 3.1 document from the schemas that also validate. Register it before the routes. */
export async function installOpenApi(
  app: FastifyInstance,
  { config }: HttpServices,
): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Gas Station',
        version: '1.0.0',
        description: 'A pay-per-call tool API for autonomous agents.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: config.publicUrl }],
      tags: TAGS,
      components: {
        securitySchemes: {
          ApiKey: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
          Bearer: { type: 'http', scheme: 'bearer' },
        },
      },
    },
    refResolver: {
      buildLocalReference: ({ $id }, _base, _fragment, at) =>
        typeof $id === 'string' ? $id : `def-${at}`,
    },
    transform: ({ schema, url, route }) => {
      const hidden = route.method === 'HEAD' || schema?.hide === true || schema === undefined
      const audience = route.config?.auth
      const keyed = [{ ApiKey: [] }, { Bearer: [] }]
      const security = audience === 'key' ? keyed : audience === 'optional' ? [{}, ...keyed] : []
      const headers = schema?.headers ?? (route.method === 'GET' ? undefined : IdempotencyHeaders)
      const documented = { ...schema, security, ...(headers === undefined ? {} : { headers }) }
      return { schema: { ...documented, ...(hidden ? { hide: true } : {}) } as FastifySchema, url }
    },
  })
  for (const path of ['/api/openapi.json', '/openapi.json']) {
    app.get(
      path,
      {
        config: { auth: 'none' },
        schema: { hide: true },
      },
      async (_request, reply) =>
        reply.header('cache-control', 'public, max-age=60').send(app.swagger()),
    )
  }
}
