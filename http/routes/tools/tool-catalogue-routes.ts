import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { errorResponses, Nullable, schemaRef, UsdcSchema } from '../../schemas/shared-schemas.ts'

/** Routes for the tool catalogue. */

const CATEGORIES = [
  'perception',
  'web',
  'finance',
  'memory',
  'intelligence',
  'onchain',
  'compute',
  'comms',
] as const
const AnyJsonSchema = Type.Unsafe<unknown>({ type: 'object', additionalProperties: true })
const Strings = Type.Array(Type.String())

const ToolEntry = Type.Object(
  {
    slug: Type.String(),
    name: Type.String(),
    category: Type.String(),
    price_usdc: UsdcSchema,
    description: Type.String(),
    type: Type.Enum(['native', 'community']),
    access: Type.Enum(['paid', 'free', 'free_with_key']),
    key_required: Type.Boolean(),
    acts_on_others: Type.Boolean({
      description:
        'A call affects other agents, people, sites or chains irreversibly: confirm it first.',
    }),
    x402_compatible: Type.Boolean(),
    free_tier: Nullable(
      Type.Object({
        calls_per_day: Nullable(Type.Integer()),
        overage_price_usdc: Nullable(UsdcSchema),
      }),
    ),
    call_endpoint: Type.String(),
    docs_url: Type.String(),
    tags: Strings,
    success_rate: Nullable(
      Type.Number({
        description:
          'Share of successful calls over seven days, without caller errors; null without any call.',
      }),
    ),
    avg_latency_ms: Nullable(Type.Number()),
    input_schema: AnyJsonSchema,
    output_schema: AnyJsonSchema,
    example_calls: Type.Array(AnyJsonSchema),
    use_cases: Strings,
    availability: Type.Object({
      available: Type.Boolean(),
      mode: Type.String(),
      requires: Strings,
      providers: Strings,
    }),
  },
  { $id: 'ToolEntry' },
)

const listTools = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'listTools',
    summary: 'Every tool, its price and its schemas',
    tags: ['tools'],
    querystring: Type.Object({ category: Type.Optional(Type.Enum([...CATEGORIES])) }),
    response: {
      200: Type.Object({
        total: Type.Integer(),
        native_count: Type.Integer(),
        community_count: Type.Integer(),
        free_count: Type.Integer(),
        tools: Type.Array(schemaRef(ToolEntry)),
      }),
      ...errorResponses,
    },
  },
}

const getTool = {
  config: { auth: 'none' } as const,
  schema: {
    operationId: 'getTool',
    summary: 'One tool',
    tags: ['tools'],
    params: Type.Object({ slug: Type.String({ pattern: '^[A-Za-z0-9_-]{1,64}$' }) }),
    response: { 200: schemaRef(ToolEntry), ...errorResponses },
  },
}

/** Lists tools, categories and prices. */
export const toolCatalogueRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { catalogue } = app.services
  app.addSchema(ToolEntry)

  app.get('/api/tools', listTools, async ({ query }, reply) =>
    reply.send(catalogue.list(query.category) as never),
  )

  app.get('/api/tools/:slug', getTool, async ({ params }, reply) =>
    reply.send(catalogue.toEntry(catalogue.get(params.slug)) as never),
  )
}
