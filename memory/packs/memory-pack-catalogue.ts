import type { Micros } from '../../core/money.ts'
import { MEMORY_PACK_BUNDLE_PRICE, MEMORY_PACK_PRICES } from '../../domain/pricing.ts'
import { ALPHA_STIM_ONCHAIN_TRADING_PACK_ENTRIES } from './alpha-stim-onchain-trading-memory-pack.ts'
import type { MemoryPackContentEntry } from './memory-pack-entry.ts'
import { FOCUS_STACK_ATTENTION_PACK_ENTRIES } from './focus-stack-attention-memory-pack.ts'
import { IAGENT_CORE_PACK_ENTRIES } from './iagent-core-memory-pack.ts'
import { SECRET_SAUCE_RELIABILITY_PACK_ENTRIES } from './secret-sauce-reliability-memory-pack.ts'

/** The memory packs for sale. */

interface PackListing {
  readonly slug: string
  readonly name: string
  readonly tagline: string
  readonly category: string
  readonly tags: readonly string[]
  readonly bestFor: readonly string[]
  readonly price: Micros
}

/** The packs for sale (decision 4). */
export const MEMORY_PACKS: readonly (PackListing & {
  readonly entries: readonly MemoryPackContentEntry[]
})[] = [
  {
    slug: 'iagent-core',
    name: 'iAgent Core',
    tagline: 'What every agent has to know before it is let out with money.',
    category: 'foundations',
    tags: ['safety', 'payments', 'http', 'reliability'],
    bestFor: ['new agents', 'agents that call paid interfaces', 'unattended runs'],
    price: MEMORY_PACK_PRICES['iagent-core'],
    entries: IAGENT_CORE_PACK_ENTRIES,
  },
  {
    slug: 'alpha-stim',
    name: 'Alpha Stim',
    tagline: 'Formulas and traps of trading on chains, to be computed before the trade.',
    category: 'trading',
    tags: ['defi', 'trading', 'risk', 'oracles'],
    bestFor: ['trading agents', 'portfolio monitors', 'liquidity managers'],
    price: MEMORY_PACK_PRICES['alpha-stim'],
    entries: ALPHA_STIM_ONCHAIN_TRADING_PACK_ENTRIES,
  },
  {
    slug: 'focus-stack',
    name: 'Focus Stack',
    tagline: 'Keeps a language model agent on its task, with what the studies measured.',
    category: 'productivity',
    tags: ['context', 'planning', 'verification', 'memory'],
    bestFor: ['research agents', 'long tasks', 'agents that write reports'],
    price: MEMORY_PACK_PRICES['focus-stack'],
    entries: FOCUS_STACK_ATTENTION_PACK_ENTRIES,
  },
  {
    slug: 'secret-sauce',
    name: 'Secret Sauce',
    tagline: 'Patterns of distributed systems and wallets for agents that run in numbers.',
    category: 'engineering',
    tags: ['distributed-systems', 'wallets', 'resilience', 'latency'],
    bestFor: ['agent fleets', 'payment agents', 'orchestrators'],
    price: MEMORY_PACK_PRICES['secret-sauce'],
    entries: SECRET_SAUCE_RELIABILITY_PACK_ENTRIES,
  },
]

/** All packs at one price. */
export const MEMORY_PACK_BUNDLE: PackListing & { readonly includes: readonly string[] } = {
  slug: 'full-stack-bundle',
  name: 'Full Stack Bundle',
  tagline: 'All four packs.',
  category: 'bundle',
  tags: ['bundle'],
  bestFor: ['agents that do all of it'],
  price: MEMORY_PACK_BUNDLE_PRICE,
  includes: MEMORY_PACKS.map(({ slug }) => slug),
}
