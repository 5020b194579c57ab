import { HOUR } from '../../core/clock.ts'
import { toUsdc, type Micros } from '../../core/money.ts'
import {
  MIN_BOUNTY_REWARD,
  SIGNAL_PRICE,
  STRATEGY_FORK_PRICE,
  STRATEGY_PUBLISH_PRICE,
  VAULT_COMPRESS_PRICE,
  VAULT_DREAM_PRICE,
  VAULT_SHARE_PRICE,
} from '../../domain/pricing.ts'
import { CREW_DEFINITIONS, CREW_KINDS } from '../../tools/intelligence/crew/crew-definitions.ts'
import {
  MAX_PASS_CALL_PRICE,
  TASK_PASSES,
  TASK_PASS_KINDS,
  type TaskPassKind,
} from '../../domain/prepaid-task-passes.ts'
import type { BundleOfMemoryPacks, MemoryPack } from '../../tools/memory/packs/memory-packs-port.ts'
import { toModelSafeName } from '../../tools/community/llm-safe-builder-text.ts'
import type { CatalogueEntry } from '../../tools/tool-ports.ts'

/** The document of everything that money buys here, each with the request that buys it. */

export type StorefrontItemKind =
  | 'tool'
  | 'crew'
  | 'pack'
  | 'bundle'
  | 'pass'
  | 'listing'
  | 'service'

export interface StorefrontItem {
  readonly id: string
  readonly kind: StorefrontItemKind
  readonly name: string
  readonly price_usdc: number
  /** Whether only callers with an API key may buy it. */
  readonly key_required: boolean
  readonly you_get: string
  readonly request: {
    readonly method: 'POST'
    readonly url: string
    readonly body: Readonly<Record<string, unknown>>
  }
}

export interface StorefrontDocumentInput {
  readonly publicUrl: string
  /** As models may read them. */
  readonly tools: readonly CatalogueEntry[]
  readonly packs: readonly MemoryPack[]
  readonly bundle: BundleOfMemoryPacks
  /** The newest open listings of the marketplace. */
  readonly listings: readonly StorefrontMemoryListing[]
}

export interface StorefrontMemoryListing {
  readonly listingId: string
  readonly name: string
  readonly price: Micros
  readonly memoryIds: readonly string[]
  readonly types: readonly string[]
}

/** Lists what is for sale, cheapest first within each kind. Free tools are in the catalogue. */
export function describeStorefront(input: StorefrontDocumentInput) {
  const { publicUrl, tools } = input
  const items = [
    ...toolItems(publicUrl, tools),
    ...CREW_KINDS.map((kind) => crewItem(publicUrl, kind)),
    ...packItems(input),
    ...TASK_PASS_KINDS.map((pass) => passItem(publicUrl, pass)),
    ...input.listings.map((listing) => listingItem(publicUrl, listing)),
    ...serviceItems(publicUrl),
  ]
  return {
    schema_version: '1.0',
    currency: 'USDC',
    items: items.toSorted(
      (one, other) =>
        one.kind.localeCompare(other.kind) ||
        one.price_usdc - other.price_usdc ||
        one.id.localeCompare(other.id),
    ),
    count: items.length,
    pay_with: {
      credits: `${publicUrl}/api/onboard`,
      without_a_key: 'POST the request: the 402 answer has an offer for x402 and MPP clients.',
    },
    links: {
      tools: `${publicUrl}/api/tools`,
      prices: `${publicUrl}/api/pricing.json`,
      marketplace: `${publicUrl}/api/marketplace`,
    },
  }
}

const toolItems = (publicUrl: string, tools: readonly CatalogueEntry[]): StorefrontItem[] =>
  tools.flatMap(({ slug, name, description, price_usdc: price, key_required, example_calls }) =>
    price === 0
      ? []
      : [
          {
            id: `tool:${slug}`,
            kind: 'tool' as const,
            name,
            price_usdc: price,
            key_required,
            you_get: description,
            request: post(publicUrl, '/api/refuel', example_calls[0] ?? { tool: slug }),
          },
        ],
  )

function crewItem(publicUrl: string, kind: (typeof CREW_KINDS)[number]): StorefrontItem {
  const { description, price, example } = CREW_DEFINITIONS[kind]
  const body = { ...example, type: kind }
  return item('crew', kind, `Crew: ${kind}`, price, description, publicUrl, '/api/agent/crew', body)
}

function packItems({ publicUrl, packs, bundle }: StorefrontDocumentInput): StorefrontItem[] {
  const path = '/api/packs/install'
  const sold = packs.map(({ slug, name, tagline, price, entries }) => {
    const gets = `${tagline} ${entries.length} memories for your vault.`
    return item('pack', slug, name, price, gets, publicUrl, path, { slug })
  })
  const { slug, name, tagline, price, includes } = bundle
  const gets = `${tagline} ${includes.join(', ')}.`
  return [...sold, item('bundle', slug, name, price, gets, publicUrl, path, { slug })]
}

function passItem(publicUrl: string, pass: TaskPassKind): StorefrontItem {
  const { name, price, calls, lifetimeMs } = TASK_PASSES[pass]
  const end = lifetimeMs === null ? 'does not expire' : `expires after ${lifetimeMs / HOUR} h`
  const gets = `${calls} calls of up to ${toUsdc(MAX_PASS_CALL_PRICE)} USDC each, in all tasks together; ${end}.`
  const path = '/api/task/passes/buy'
  return item('pass', pass, `Task pass: ${name}`, price, gets, publicUrl, path, { pass })
}

function listingItem(
  publicUrl: string,
  { listingId, name, price, memoryIds, types }: StorefrontMemoryListing,
): StorefrontItem {
  const gets = `Copies of ${memoryIds.length} memories of another agent (${types.join(', ')}) for your vault.`
  const path = `/api/marketplace/buy/${listingId}`
  // The seller has named it.
  const shown = toModelSafeName(name) ?? 'A listing whose name is withheld'
  return item('listing', listingId, shown, price, gets, publicUrl, path, {})
}

const ID = '<id>'

const serviceItems = (publicUrl: string): StorefrontItem[] => {
  const service = (
    id: string,
    name: string,
    price: Micros,
    gets: string,
    path: string,
    body: Readonly<Record<string, unknown>> = {},
  ) => item('service', id, name, price, gets, publicUrl, path, body)
  return [
    service(
      'signal',
      'Publish a signal',
      SIGNAL_PRICE,
      'Every listener of the channel gets it.',
      '/api/signal/publish',
      { channel: 'news', type: 'insight', payload: {} },
    ),
    service(
      'vault-share',
      'Share a memory',
      VAULT_SHARE_PRICE,
      'A permanent copy in the vault of another agent.',
      '/api/vault/share',
      { entry_id: ID, to_agent_id: ID },
    ),
    service(
      'vault-dream',
      'Dream',
      VAULT_DREAM_PRICE,
      'A report on up to 80 memories, and insights written from them.',
      '/api/vault/dream',
    ),
    service(
      'vault-compress',
      'Compress memories',
      VAULT_COMPRESS_PRICE,
      'Summaries of your 50 oldest memories.',
      '/api/vault/compress',
    ),
    service(
      'strategy',
      'Publish a strategy',
      STRATEGY_PUBLISH_PRICE,
      'A public strategy that pays you when it is forked.',
      '/api/strategies',
      { title: 'A strategy', tool: 'price_feed' },
    ),
    service(
      'strategy-fork',
      'Fork a strategy',
      STRATEGY_FORK_PRICE,
      'A copy of the strategy with its parameters.',
      `/api/strategies/${ID}/fork`,
    ),
    service(
      'bounty',
      'Post a bounty',
      MIN_BOUNTY_REWARD,
      'The smallest reward; it is held until somebody earns it, and comes back when nobody does.',
      '/api/bounties',
      {
        title: 'A question',
        description: 'What you need to know',
        domain: 'base',
        reward_usdc: toUsdc(MIN_BOUNTY_REWARD),
      },
    ),
  ]
}

function item(
  kind: StorefrontItemKind,
  id: string,
  name: string,
  price: Micros,
  gets: string,
  publicUrl: string,
  path: string,
  body: Readonly<Record<string, unknown>>,
): StorefrontItem {
  return {
    id: `${kind}:${id}`,
    kind,
    name,
    price_usdc: toUsdc(price),
    key_required: true,
    you_get: gets,
    request: post(publicUrl, path, body),
  }
}

const post = (publicUrl: string, path: string, body: Readonly<Record<string, unknown>>) => ({
  method: 'POST' as const,
  url: `${publicUrl}${path}`,
  body,
})
