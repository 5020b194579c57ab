import type { FastifyRequest } from 'fastify'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { invalidInputError } from '../../../core/errors.ts'
import type { Tool, ToolCategory } from '../../../tools/define-tool.ts'
import { isVerifiedTool } from '../../../tools/tool-catalogue.ts'
import type { CatalogueEntry } from '../../../tools/tool-ports.ts'
import { selectToolsForModels } from '../../../tools/tools-shown-to-models.ts'
import {
  DEFAULT_COMMUNITY_TOOLS,
  MAX_COMMUNITY_TOOLS,
  type CommunityToolCut,
} from '../../../tools/community/page.ts'
import {
  createCachedDocumentHandler,
  type CachedDocumentHandler,
} from '../../cached-http-document.ts'
import { isToolCursor, modelPageAfter, toMcpTool, toToolCursor } from '../../mcp/mcp-tool-list.ts'
import {
  errorResponses,
  Nullable,
  schemaRef,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'

import { TOOL_CATEGORIES } from './tool-categories.ts'
import {
  MODEL_API_TOOL_FORMATS,
  toModelTools,
  type ModelApiToolFormat,
} from './llm-tool-formats.ts'

/** Routes for the tool catalogue. */

const AnyJsonSchema = Type.Unsafe<unknown>({ type: 'object', additionalProperties: true })
const Strings = Type.Array(Type.String())

const ToolEntry = Type.Object(
  {
    slug: Type.String(),
    name: Type.String(),
    category: Type.String(),
    price_usdc: ResponseUsdcAmountSchema,
    description: Type.String(),
    type: Type.Enum(['native', 'community']),
    builder: Type.Optional(
      Type.Object(
        {
          name: Type.String(),
          agent_id: Type.Optional(Type.String()),
          verified: Type.Boolean({ description: 'The operator of this station has reviewed it.' }),
        },
        { description: 'Who sells a community tool.' },
      ),
    ),
    state: Type.Optional(
      Type.String({
        description: '`probation`, or `listed` after good calls of several payers.',
      }),
    ),
    accepts_promo: Type.Optional(
      Type.Boolean({ description: 'Whether promotional credits pay for a community tool.' }),
    ),
    next_price: Type.Optional(
      Nullable(
        Type.Object(
          { price_usdc: ResponseUsdcAmountSchema, from: Type.String({ format: 'date-time' }) },
          { description: 'A higher price that the builder has announced.' },
        ),
      ),
    ),
    quality: Type.Optional(
      Nullable(
        Type.Object(
          {
            calls: Type.Integer(),
            success_rate: Nullable(Type.Number()),
            p50_ms: Type.Integer(),
            p95_ms: Type.Integer(),
            refunds: Type.Integer(),
            payers: Type.Integer(),
            schema_failures: Type.Integer(),
          },
          {
            description:
              'Measured over seven days, without calls of the builder, its fleet and its address.',
          },
        ),
      ),
    ),
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
        overage_price_usdc: Nullable(ResponseUsdcAmountSchema),
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
    input_schema: Type.Optional(AnyJsonSchema),
    output_schema: Type.Optional(AnyJsonSchema),
    example_calls: Type.Optional(
      Type.Array(AnyJsonSchema, {
        description:
          'With the schemas: of native tools in every list, of tools of other agents at `/api/tools/{slug}`.',
      }),
    ),
    use_cases: Strings,
    availability: Type.Object({
      available: Type.Boolean(),
      mode: Type.String(),
      requires: Strings,
      providers: Strings,
      reason: Type.Optional(
        Type.String({
          description:
            'Why it does less on this station than its description says, or nothing. Absent where it does all.',
        }),
      ),
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
    querystring: Type.Object({
      category: Type.Optional(
        Type.Enum([...TOOL_CATEGORIES], { description: 'Only the tools of this category.' }),
      ),
      format: Type.Optional(
        Type.Enum([...MODEL_API_TOOL_FORMATS], {
          description:
            'The tools as this kind of API takes them: `openai` (Chat Completions), `anthropic` (Messages) and `gemini` (generateContent) return the value of `tools` in a request to a model, `mcp` the result of tools/list.',
        }),
      ),
      community: Type.Optional(
        Type.Literal('1', {
          description: 'With `format`: also tools of other agents that nobody has verified.',
        }),
      ),
      limit: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: MAX_COMMUNITY_TOOLS,
          default: DEFAULT_COMMUNITY_TOOLS,
          description:
            'How many tools of other agents a page has, beside the native ones on the first.',
        }),
      ),
      cursor: Type.Optional(
        Type.String({
          minLength: 1,
          maxLength: 128,
          description:
            '`next_cursor` of the page before; with `format` it is in the header `Link` (`rel="next"`).',
        }),
      ),
    }),
    response: {
      200: Type.Object({
        total: Type.Integer(),
        native_count: Type.Integer(),
        community_count: Type.Integer(),
        free_count: Type.Integer(),
        tools: Type.Array(schemaRef(ToolEntry)),
        next_cursor: Nullable(Type.String()),
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

interface ListQuery {
  readonly format?: ModelApiToolFormat | undefined
  readonly category?: ToolCategory | undefined
  readonly community?: '1' | undefined
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
}

/** Without what strangers may make large; it is at `/api/tools/{slug}`. */
function toListedEntry(entry: CatalogueEntry) {
  if (entry.type === 'native') return entry
  const { input_schema: _in, output_schema: _out, example_calls: _examples, ...rest } = entry
  return rest
}

function nextLink({ url }: Pick<FastifyRequest, 'url'>, { next }: CommunityToolCut) {
  const cursor = toToolCursor(next)
  if (cursor === null) return {}
  const [path = '', search = ''] = url.split('?')
  const query = new URLSearchParams(search)
  query.set('cursor', cursor)
  return { link: `<${path}?${query.toString()}>; rel="next"` }
}

/** Lists tools, categories and prices. */
export const toolCatalogueRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { catalogue, clock } = app.services
  app.addSchema(ToolEntry)
  const firstPages = new Map<string, CachedDocumentHandler>()
  const select = ({ category, format, community, limit, cursor }: ListQuery) => {
    const isIn = (tool: Tool) => category === undefined || tool.category === category
    const page = { ...modelPageAfter(cursor ?? null), limit: limit ?? DEFAULT_COMMUNITY_TOOLS }
    if (format === undefined) return catalogue.page(isIn, { ...page, schemaChars: Infinity })
    return catalogue.page((tool) => isIn(tool) && (community === '1' || isVerifiedTool(tool)), page)
  }
  const render = ({ category, format }: ListQuery, { tools, next }: CommunityToolCut): object => {
    const all = tools.map(catalogue.toEntry)
    if (format === undefined) {
      const listed = all.map(toListedEntry)
      return { ...catalogue.totals(category), tools: listed, next_cursor: toToolCursor(next) }
    }
    const entries = selectToolsForModels(all, { community: true })
    if (format !== 'mcp') return toModelTools(format, entries)
    const listed = entries.map((entry) => toMcpTool(entry, catalogue.find(entry.slug)))
    return { tools: listed, ...(next === null ? {} : { nextCursor: toToolCursor(next) }) }
  }
  /** Its `Link` continues what is kept, which may be some seconds old. */
  function firstPageOf(query: ListQuery): CachedDocumentHandler {
    let page = select(query)
    return createCachedDocumentHandler({
      clock,
      read: () => render(query, (page = select(query))),
      headers: (request) => nextLink(request, page),
    })
  }

  app.get('/api/tools', listTools, (request, reply) => {
    const { query } = request
    const { category, format, community, limit = DEFAULT_COMMUNITY_TOOLS, cursor } = query
    if (cursor !== undefined && !isToolCursor(cursor))
      throw invalidInputError('/cursor', 'is not a cursor of this list')
    // The schema of the answer is that of the catalogue.
    if (format !== undefined) reply.serializer(JSON.stringify)
    // What has a size or place of its own is seldom asked for.
    if (cursor !== undefined || limit !== DEFAULT_COMMUNITY_TOOLS) {
      const page = select(query)
      reply.headers(nextLink(request, page)).type('application/json; charset=utf-8')
      return void reply.send(render(query, page) as never)
    }
    const name = `${category} ${format} ${community}`
    const listing = firstPages.get(name) ?? firstPageOf(query)
    firstPages.set(name, listing)
    listing(request, reply)
  })

  app.get('/api/tools/:slug', getTool, async ({ params }, reply) => {
    await catalogue.load(params.slug)
    return reply.send(catalogue.toEntry(catalogue.get(params.slug)) as never)
  })
}
