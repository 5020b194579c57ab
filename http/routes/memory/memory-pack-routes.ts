import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { subtractMicros, sumMicros, toUsdc } from '../../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import type {
  BundleOfMemoryPacks,
  MemoryPack,
} from '../../../tools/memory/packs/memory-packs-port.ts'
import { toBaseCallRequest, sendCallReply } from '../../http-tool-call-request.ts'
import {
  StrictBody,
  errorResponses,
  DateTimeSchema,
  toIsoTime,
  schemaRef,
  ResponseUsdcAmountSchema,
} from '../../schemas/shared-schemas.ts'

/** Routes for memory packs, which agents sell. */

const tags = ['packs']
const AnyObject = Type.Object({}, { additionalProperties: true })
const Count = Type.Integer({ minimum: 0 })
const INSTALL_PATH = '/api/packs/install'

const PackView = Type.Object(
  {
    slug: Type.String(),
    name: Type.String(),
    tagline: Type.String(),
    price_usdc: ResponseUsdcAmountSchema,
    entry_count: Count,
    category: Type.String(),
    tags: Type.Array(Type.String()),
    best_for: Type.Array(Type.String()),
    install_endpoint: Type.String(),
  },
  { $id: 'MemoryPack' },
)

const BundleView = Type.Object(
  {
    ...PackView.properties,
    includes: Type.Array(Type.String()),
    individual_total_usdc: ResponseUsdcAmountSchema,
    savings_usdc: ResponseUsdcAmountSchema,
  },
  { $id: 'PackBundle' },
)

const packListRoute = (operationId: string, summary: string) => ({
  config: { auth: 'none' } as const,
  schema: {
    operationId,
    summary,
    tags,
    response: {
      200: Type.Object({
        packs: Type.Array(schemaRef(PackView)),
        count: Count,
        total_entries: Count,
        bundle: schemaRef(BundleView),
      }),
      ...errorResponses,
    },
  },
})

const installPack = {
  config: { auth: 'key', scope: 'tools', rate: 'refuel', bound: 'pays' } as const,
  schema: {
    operationId: 'installPack',
    summary: 'Buy a pack or the bundle; its entries become your memories',
    description:
      'Each pack can be bought once; the bundle adds the missing packs at its own price. Charge and entries are one commit.',
    tags,
    body: StrictBody({
      slug: Type.String({ minLength: 1, maxLength: 64, pattern: NOT_BLANK_PATTERN }),
    }),
    response: { 200: AnyObject, ...errorResponses },
  },
}

const installedPacks = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'installedPacks',
    summary: 'Your installed packs',
    tags,
    response: {
      200: Type.Object({
        installed: Type.Array(
          Type.Object({
            slug: Type.String(),
            name: Type.String(),
            bought_as: Type.String(),
            entries: Count,
            namespace: Type.String(),
            installed_at: DateTimeSchema,
          }),
        ),
        count: Count,
      }),
      ...errorResponses,
    },
  },
}

/** Memory packs over REST. */
export const memoryPackRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls, packs: shop, config } = app.services
  app.addSchema(PackView)
  app.addSchema(BundleView)
  const listed = async () =>
    presentPackList(shop.packs, shop.bundle, `${config.publicUrl}${INSTALL_PATH}`)

  app.get('/api/packs', packListRoute('listPacks', 'Memory packs and their bundle'), listed)
  app.get(
    '/api/marketplace/packs',
    packListRoute('listMarketplacePacks', 'The packs of this station'),
    listed,
  )

  app.post(INSTALL_PATH, installPack, async (request, reply) => {
    const body = { ...request.body }
    return sendCallReply(
      reply,
      await calls.refuel({ ...toBaseCallRequest(request, reply), tool: 'pack_install', body }),
    )
  })

  app.get('/api/packs/installed', installedPacks, async ({ agentId }) => {
    const installed = (await shop.installs(agentId)).map(({ pack, boughtAs, entries, at }) => ({
      slug: pack,
      name: shop.packs.find(({ slug }) => slug === pack)?.name ?? pack,
      bought_as: boughtAs,
      entries,
      namespace: `pack:${pack}`,
      installed_at: toIsoTime(at),
    }))
    return { installed, count: installed.length }
  })
}

function presentPackList(
  packs: readonly MemoryPack[],
  bundle: BundleOfMemoryPacks,
  endpoint: string,
) {
  const included = packs.filter(({ slug }) => bundle.includes.includes(slug))
  const apart = sumMicros(included.map(({ price }) => price))
  const entries = (some: readonly MemoryPack[]) =>
    some.reduce((count, pack) => count + pack.entries.length, 0)
  return {
    packs: packs.map((pack) => presentPack(pack, pack.entries.length, endpoint)),
    count: packs.length,
    total_entries: entries(packs),
    bundle: {
      ...presentPack(bundle, entries(included), endpoint),
      includes: [...bundle.includes],
      individual_total_usdc: toUsdc(apart),
      savings_usdc: toUsdc(subtractMicros(apart, bundle.price)),
    },
  }
}

const presentPack = (
  pack: MemoryPack | BundleOfMemoryPacks,
  entries: number,
  endpoint: string,
) => ({
  slug: pack.slug,
  name: pack.name,
  tagline: pack.tagline,
  price_usdc: toUsdc(pack.price),
  entry_count: entries,
  category: pack.category,
  tags: [...pack.tags],
  best_for: [...pack.bestFor],
  install_endpoint: endpoint,
})
