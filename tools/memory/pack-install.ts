import Type from 'typebox'
import { ServiceError } from '../../core/errors.ts'
import { ZERO_MICROS, type Micros } from '../../core/money.ts'
import { MEMORY_PACK_BUNDLE_PRICE, MEMORY_PACK_PRICES } from '../../domain/pricing.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool, type ToolPreflightContext, type ToolContext } from '../define-tool.ts'
import type { MemoryPack } from './packs/memory-packs-port.ts'
import {
  DateTimeField,
  stageMemory,
  vaultToolCallerAgentId,
} from './vault/memory-schemas-and-staging.ts'

/** The tool `pack-install`: buys a memory pack or a bundle. */

const BUNDLE = 'full-stack-bundle'
const prices: Readonly<Record<string, Micros>> = {
  ...MEMORY_PACK_PRICES,
  [BUNDLE]: MEMORY_PACK_BUNDLE_PRICE,
}

export default defineTool({
  slug: 'pack_install',
  name: 'Pack Install',
  category: 'memory',
  description:
    'Buys a memory pack, once: its entries become memories of your own that do not fade, and vault_query finds them.',
  tags: ['packs', 'vault', 'knowledge'],
  useCases: ['Start with proven knowledge', 'Equip a new agent'],
  examples: [{ slug: 'iagent-core' }],
  access: 'paid',
  keyRequired: true,
  unlisted: true,
  price: ({ slug }) => (Object.hasOwn(prices, slug) ? (prices[slug] ?? ZERO_MICROS) : ZERO_MICROS),
  effect: 'internal',
  timeoutMs: 15_000,
  input: Type.Object(
    { slug: Type.String({ minLength: 1, maxLength: 64, pattern: NOT_BLANK_PATTERN }) },
    { additionalProperties: false },
  ),
  output: Type.Object({
    slug: Type.String(),
    status: Type.Enum(['installed']),
    installed: Type.Array(
      Type.Object({
        slug: Type.String(),
        name: Type.String(),
        entries: Type.Integer({ minimum: 1 }),
        namespace: Type.String(),
      }),
    ),
    entries_added: Type.Integer({ minimum: 1 }),
    already_owned: Type.Array(Type.String(), {
      description: 'Packs of the bundle that you had already.',
    }),
    installed_at: DateTimeField,
  }),
  async preflight({ slug }, context) {
    await selectMissingPacks(slug, context)
  },
  async run({ slug }, context) {
    const { now, stage } = context
    const { packs, owned } = await selectMissingPacks(slug, context)
    // Of two concurrent purchases one commits.
    stage.changeEntitlement({ type: 'OWN', names: packs.map((pack) => `pack:${pack.slug}`) })
    const installed = []
    for (const pack of packs) installed.push(await installPack(pack, slug, context))
    return {
      slug,
      status: 'installed' as const,
      installed,
      entries_added: installed.reduce((sum, { entries }) => sum + entries, 0),
      already_owned: [...owned],
      installed_at: now().toISOString(),
    }
  },
})

/** Returns the packs of a slug that the caller lacks; throws when none is left. */
async function selectMissingPacks(slug: string, { caller, packs: shelf }: ToolPreflightContext) {
  const { packs, bundle } = shelf
  const names = slug === bundle.slug ? bundle.includes : [slug]
  const meant = packs.filter((pack) => names.includes(pack.slug))
  if (meant.length === 0) throw new ServiceError('pack_not_found', { slug })
  const installed = await shelf.listInstalled(caller.agentId ?? '')
  const missing = meant.filter((pack) => !installed.includes(pack.slug))
  if (missing.length === 0) throw new ServiceError('already_owned', { slug })
  const owned = meant.filter((pack) => !missing.includes(pack)).map((pack) => pack.slug)
  return { packs: missing, owned }
}

async function installPack(pack: MemoryPack, boughtAs: string, context: ToolContext) {
  const namespace = `pack:${pack.slug}`
  for (const { source, ...entry } of pack.entries) {
    const origin = { by: 'pack', pack: pack.slug, source }
    await stageMemory(context, { ...entry, immortal: true, namespace, origin })
  }
  context.stage.row('pack_installs', {
    agent_id: vaultToolCallerAgentId(context),
    pack: pack.slug,
    bought_as: boughtAs,
    entries: pack.entries.length,
    call_id: context.callId,
    at: context.now().toISOString(),
  })
  return { slug: pack.slug, name: pack.name, entries: pack.entries.length, namespace }
}
