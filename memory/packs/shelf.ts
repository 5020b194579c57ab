import type { Micros } from '../../core/money.ts'
import { BUNDLE_PRICE, PACK_PRICES } from '../../core/prices.ts'
import { alphaStim } from './alpha-stim.ts'
import type { Entry } from './entry.ts'
import { focusStack } from './focus-stack.ts'
import { iagentCore } from './iagent-core.ts'
import { secretSauce } from './secret-sauce.ts'

interface Shown {
  readonly slug: string
  readonly name: string
  readonly tagline: string
  readonly category: string
  readonly tags: readonly string[]
  readonly bestFor: readonly string[]
  readonly price: Micros
}

/** The packs that are sold (decision 4). */
export const packs: readonly (Shown & { readonly entries: readonly Entry[] })[] = [
  {
    slug: 'iagent-core',
    name: 'iAgent Core',
    tagline: 'What every agent has to know before it is let out with money.',
    category: 'foundations',
    tags: ['safety', 'payments', 'http', 'reliability'],
    bestFor: ['new agents', 'agents that call paid interfaces', 'unattended runs'],
    price: PACK_PRICES['iagent-core'],
    entries: iagentCore,
  },
  {
    slug: 'alpha-stim',
    name: 'Alpha Stim',
    tagline: 'Formulas and traps of trading on chains, to be computed before the trade.',
    category: 'trading',
    tags: ['defi', 'trading', 'risk', 'oracles'],
    bestFor: ['trading agents', 'portfolio monitors', 'liquidity managers'],
    price: PACK_PRICES['alpha-stim'],
    entries: alphaStim,
  },
  {
    slug: 'focus-stack',
    name: 'Focus Stack',
    tagline: 'Keeps a language model agent on its task, with what the studies measured.',
    category: 'productivity',
    tags: ['context', 'planning', 'verification', 'memory'],
    bestFor: ['research agents', 'long tasks', 'agents that write reports'],
    price: PACK_PRICES['focus-stack'],
    entries: focusStack,
  },
  {
    slug: 'secret-sauce',
    name: 'Secret Sauce',
    tagline: 'Patterns of distributed systems and wallets for agents that run in numbers.',
    category: 'engineering',
    tags: ['distributed-systems', 'wallets', 'resilience', 'latency'],
    bestFor: ['agent fleets', 'payment agents', 'orchestrators'],
    price: PACK_PRICES['secret-sauce'],
    entries: secretSauce,
  },
]

/** All of them at one price. */
export const bundle: Shown & { readonly includes: readonly string[] } = {
  slug: 'full-stack-bundle',
  name: 'Full Stack Bundle',
  tagline: 'All four packs.',
  category: 'bundle',
  tags: ['bundle'],
  bestFor: ['agents that do all of it'],
  price: BUNDLE_PRICE,
  includes: packs.map(({ slug }) => slug),
}
