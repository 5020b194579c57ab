import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { subtract, sum, toUsdc } from '../../core/money.ts'
import { SAID } from '../../core/said.ts'
import type { Bundle, Pack } from '../../tools/packs/port.ts'
import { frame, send } from '../call-request.ts'
import { Body, failures, Instant, instant, ref, Usdc } from '../schemas.ts'

const tags = ['packs']
const Open = Type.Object({}, { additionalProperties: true })
const Count = Type.Integer({ minimum: 0 })
const INSTALL = '/api/packs/install'

const PackView = Type.Object(
  {
    slug: Type.String(),
    name: Type.String(),
    tagline: Type.String(),
    price_usdc: Usdc,
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
    individual_total_usdc: Usdc,
    savings_usdc: Usdc,
  },
  { $id: 'PackBundle' },
)

const shelf = (operationId: string, summary: string) => ({
  config: { auth: 'none' } as const,
  schema: {
    operationId,
    summary,
    tags,
    response: {
      200: Type.Object({
        packs: Type.Array(ref(PackView)),
        count: Count,
        total_entries: Count,
        bundle: ref(BundleView),
      }),
      ...failures,
    },
  },
})

const installPack = {
  config: { auth: 'key', scope: 'tools', rate: 'refuel', bound: 'pays' } as const,
  schema: {
    operationId: 'installPack',
    summary: 'Buy a pack or the bundle: its entries become memories of your own',
    description:
      'Once for each pack; the bundle brings those that are missing, at its own price. Debit and entries are one commit.',
    tags,
    body: Body({ slug: Type.String({ minLength: 1, maxLength: 64, pattern: SAID }) }),
    response: { 200: Open, ...failures },
  },
}

const installedPacks = {
  config: { auth: 'key', scope: 'read', bound: 'reads' } as const,
  schema: {
    operationId: 'installedPacks',
    summary: 'The packs you have',
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
            installed_at: Instant,
          }),
        ),
        count: Count,
      }),
      ...failures,
    },
  },
}

/** Memory packs. */
export const packRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { calls, packs: shop, config } = app.services
  app.addSchema(PackView)
  app.addSchema(BundleView)
  const listed = async () => shownShelf(shop.packs, shop.bundle, `${config.publicUrl}${INSTALL}`)

  app.get('/api/packs', shelf('listPacks', 'Memory packs and their bundle'), listed)
  app.get('/api/marketplace/packs', shelf('listMarketplacePacks', 'The packs of the house'), listed)

  app.post(INSTALL, installPack, async (request, reply) => {
    const body = { ...request.body }
    return send(reply, await calls.refuel({ ...frame(request, reply), tool: 'pack_install', body }))
  })

  app.get('/api/packs/installed', installedPacks, async ({ agentId }) => {
    const installed = (await shop.installs(agentId)).map(({ pack, boughtAs, entries, at }) => ({
      slug: pack,
      name: shop.packs.find(({ slug }) => slug === pack)?.name ?? pack,
      bought_as: boughtAs,
      entries,
      namespace: `pack:${pack}`,
      installed_at: instant(at),
    }))
    return { installed, count: installed.length }
  })
}

function shownShelf(packs: readonly Pack[], bundle: Bundle, endpoint: string) {
  const included = packs.filter(({ slug }) => bundle.includes.includes(slug))
  const apart = sum(included.map(({ price }) => price))
  const entries = (some: readonly Pack[]) =>
    some.reduce((count, pack) => count + pack.entries.length, 0)
  return {
    packs: packs.map((pack) => present(pack, pack.entries.length, endpoint)),
    count: packs.length,
    total_entries: entries(packs),
    bundle: {
      ...present(bundle, entries(included), endpoint),
      includes: [...bundle.includes],
      individual_total_usdc: toUsdc(apart),
      savings_usdc: toUsdc(subtract(apart, bundle.price)),
    },
  }
}

const present = (pack: Pack | Bundle, entries: number, endpoint: string) => ({
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
