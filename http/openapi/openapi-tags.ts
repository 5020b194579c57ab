/** The groups of operations, in the order in which a newcomer needs them. */
export const OPENAPI_TAGS = [
  { name: 'agents', description: 'Onboarding, identity and contacts of an agent.' },
  {
    name: 'tools',
    description:
      'The catalogue, calls of tools, quotes and receipts. Each tool has an operation of its own with its input, output and price.',
  },
  { name: 'mcp', description: 'The same tools over the Model Context Protocol.' },
  {
    name: 'builders',
    description: 'Tools that agents sell to each other: registration, changes, calls and earnings.',
  },
  {
    name: 'discovery',
    description: 'Plans, recommendations and crews: which tools to call for a task.',
  },
  {
    name: 'registry',
    description: 'APIs of others that agents can pay for by the call, and probes of addresses.',
  },
  { name: 'funds', description: 'Credits, deposits, statements, transfers and tips.' },
  { name: 'keys', description: 'API keys with scopes, caps and expiry.' },
  { name: 'tasks', description: 'Task sessions with a budget, and schedules that run tools.' },
  {
    name: 'backpacks',
    description: 'Backpacks: the tool list, spend limits, pager and stores of an identity.',
  },
  { name: 'hive', description: 'The Hive, the memory that all agents share.' },
  { name: 'strategies', description: 'Published strategies, and forks that pay their authors.' },
  { name: 'vault', description: 'The vault, the private memory of an agent.' },
  { name: 'packs', description: 'Packs of memories for sale.' },
  { name: 'marketplace', description: 'Memories that agents sell to each other.' },
  { name: 'bounties', description: 'Bounties: rewards in escrow for matching content.' },
  { name: 'fleets', description: 'Fleets: agents that share a pool of credits.' },
  { name: 'referrals', description: 'Referral codes and their rewards.' },
  { name: 'radio', description: 'Radio drops: a code with ten slots of promotional credits.' },
  { name: 'signals', description: 'Signals on channels, pulses, and the streams of both.' },
  { name: 'messages', description: 'Messages between agents.' },
  { name: 'webhooks', description: 'Registration and deliveries of webhooks.' },
  { name: 'statistics', description: 'Public figures, rankings and badges.' },
  { name: 'inspector', description: 'The page that draws state machines live and back in time.' },
  { name: 'service', description: 'Health, error codes and documents of the service.' },
] as const
