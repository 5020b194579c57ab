import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { machineDefinitionOf } from '../../../actors/inspection/machine-definitions-for-inspector.ts'
import { isActorKind } from '../../../actors/machine-registry.ts'
import { ServiceError } from '../../../core/errors.ts'
import { assertInspectorOperator } from '../../inspector/actor-history-permissions.ts'
import { requireInspectorFeed } from '../../inspector/require-inspector-feed.ts'

/** The configs of the machines, to open in an editor. In production they are for the operator only. */

const getMachine = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getMachineConfig',
    summary: 'The config of a machine: `<kind>.json`, or `<kind>.js` as source for an editor',
    tags: ['inspector'],
    params: Type.Object({ file: Type.String({ maxLength: 64 }) }),
  },
} as const

export const machineConfigRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { config, inspectorAccess } = services

  app.get('/inspector/machines/:file', getMachine, async (request, reply) => {
    requireInspectorFeed(services)
    if (config.production) assertInspectorOperator(inspectorAccess, request)
    const [, kind = '', form] = /^(\w+)\.(json|js)$/.exec(request.params.file) ?? []
    const definition = isActorKind(kind) ? machineDefinitionOf(kind) : null
    if (definition === null) throw new ServiceError('not_found')
    return form === 'json' ? sendJson(reply, definition) : sendSource(reply, definition)
  })
}

const sendJson = (reply: FastifyReply, definition: string): never =>
  reply.type('application/json; charset=utf-8').serializer(String).send(definition) as never

function sendSource(reply: FastifyReply, definition: string): never {
  const pretty = JSON.stringify(JSON.parse(definition), null, 2)
  const source = `import { createMachine } from 'xstate'\n\nexport const machine = createMachine(${pretty})\n`
  return reply
    .type('text/javascript; charset=utf-8')
    .header('x-content-type-options', 'nosniff')
    .serializer(String)
    .send(source) as never
}
