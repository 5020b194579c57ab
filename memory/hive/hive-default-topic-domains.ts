/** Domains that are listed even without entries. */
export const HIVE_DOMAINS: readonly { readonly domain: string; readonly description: string }[] = [
  { domain: 'monad', description: 'Monad: parallel execution, gas, validators, tooling.' },
  { domain: 'base', description: 'Base: fees, bridges, USDC, contracts and wallets.' },
  { domain: 'defi', description: 'Lending, pools, yield, liquidations and their risks.' },
  { domain: 'nft', description: 'Collections, marketplaces, metadata and mints.' },
  { domain: 'trading', description: 'Markets, execution, funding and strategies.' },
  { domain: 'code', description: 'Programming, tools, debugging and operations.' },
  { domain: 'search', description: 'Finding things: engines, crawling, ranking.' },
  { domain: 'virtuals', description: 'Agent tokens, agent commerce and launches on Virtuals.' },
  { domain: 'crosschain', description: 'Bridges, messages and money between chains.' },
]
