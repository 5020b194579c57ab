import Type from 'typebox'
import { LIMITS } from '../core/limits.ts'
import { VAULT_WRITE } from '../core/prices.ts'
import { SAID } from '../core/said.ts'
import { defineTool, type Asking, type ToolContext } from './define.ts'
import { conflictOf } from './vault/contradiction.ts'
import {
  archive,
  DecayView,
  Instant,
  keep,
  Kind,
  MemoryView,
  ownerOf,
  Superseded,
  Uuid,
} from './vault/keep.ts'
import { ownMemories } from './vault/own.ts'
import type { Memory } from './vault/port.ts'

const COMPARED = 12
const MOST_SUPERSEDED = 10

export default defineTool({
  slug: 'vault_write',
  name: 'Vault Write',
  category: 'memory',
  description: `Keeps a private memory. Facts live 365 days, insights 90, context 7, skills 180, immortal ones for good. The first ${LIMITS.vaultFreeWrites} writes of an agent are free.`,
  tags: ['vault', 'memory', 'private'],
  useCases: ['Remember across sessions', 'Keep what a task has taught', 'Replace what is outdated'],
  examples: [
    {
      content: 'The staging API allows 20 requests a second; above that it answers 429.',
      type: 'fact',
      tags: ['api', 'limits'],
      importance: 0.8,
    },
  ],
  access: 'paid',
  keyRequired: true,
  price: VAULT_WRITE,
  allowance: { calls: LIMITS.vaultFreeWrites },
  effect: 'internal',
  timeoutMs: 8_000,
  input: Type.Object(
    {
      content: Type.String({ minLength: 1, maxLength: LIMITS.vaultContent, pattern: SAID }),
      type: Kind,
      tags: Type.Optional(
        Type.Array(Type.String({ minLength: 1, maxLength: 40, pattern: SAID }), { maxItems: 20 }),
      ),
      importance: Type.Optional(Type.Number({ minimum: 0, maximum: 1, default: 0.5 })),
      immortal: Type.Optional(Type.Boolean({ default: false })),
      supersedes: Type.Optional(
        Type.Array(Uuid, {
          maxItems: MOST_SUPERSEDED,
          description: 'Memories of your own that this one takes the place of.',
        }),
      ),
      keep_contradicted: Type.Optional(
        Type.Boolean({
          default: false,
          description: 'Leave memories that say otherwise beside this one.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    pack: Type.Object({
      id: Uuid,
      content: Type.String(),
      type: Kind,
      tags: MemoryView.properties.tags,
      importance: Type.Number(),
      immortal: Type.Boolean(),
      namespace: Type.String(),
      created_at: Instant,
    }),
    status: Type.Enum(['stored']),
    decay: DecayView,
    superseded: Type.Array(Superseded, {
      description: 'They are kept, and stay in the export, but are no answers any more.',
    }),
    free_tier_remaining: Type.Optional(Type.Integer({ minimum: 0 })),
  }),
  async preflight({ supersedes = [] }, context) {
    await named(supersedes, context)
  },
  async run(input, context) {
    const { content, type, tags = [], importance = 0.5, immortal = false } = input
    const asked = await named(input.supersedes ?? [], context)
    const found = input.keep_contradicted === true ? [] : await contradicted(content, context)
    const old = [
      ...asked.map((memory) => ({ memory, reason: 'asked' as const })),
      ...found.filter(({ memory }) => !asked.some(({ id }) => id === memory.id)),
    ]
    const origin = { by: 'write', supersedes: old.map(({ memory }) => memory.id) }
    const { decay, ...pack } = await keep(context, {
      content,
      type,
      tags,
      importance,
      immortal,
      origin,
    })
    for (const { memory } of old) archive(context, memory.id, 'superseded', pack.id)
    return {
      pack,
      status: 'stored' as const,
      decay,
      superseded: old.map(({ memory, reason }) => ({
        id: memory.id,
        content: memory.content,
        reason,
      })),
    }
  },
})

/** Live memories of the caller by their ids; refuses when one is not there. */
async function named(ids: readonly string[], context: Asking): Promise<readonly Memory[]> {
  if (ids.length === 0) return []
  const wanted = [...new Set(ids.map((id) => id.toLowerCase()))]
  return ownMemories(wanted, context)
}

/** Memories that the new one cannot stand beside. One that is to last for good is never among them. */
async function contradicted(content: string, context: ToolContext) {
  const { text, vault, now } = context
  const near = await vault.recall({
    agentId: ownerOf(context),
    text: content,
    vector: await text.vector(content),
    type: null,
    tag: null,
    limit: COMPARED,
    among: LIMITS.vaultCompared,
    at: now().getTime(),
  })
  const found = []
  for (const { memory } of near) {
    if (memory.immortal) continue
    const reason = await conflictOf(text, memory.content, content)
    if (reason !== null) found.push({ memory, reason })
  }
  return found
}
