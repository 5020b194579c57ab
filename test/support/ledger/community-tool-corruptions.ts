import type { LedgerCorruption } from './ledger-corruptions.ts'

/** Corruptions of tools that agents sell. */
export const communityToolCorruptions: readonly LedgerCorruption[] = [
  {
    description: 'a share that is not 60 % of the price',
    rule: 'BT1',
    apply: (sql) => sql`update community_tool_calls set price_micros = price_micros + 1000`,
  },
  {
    description: 'a share that its builder did not get',
    rule: 'BT1',
    apply: (sql) => sql`update community_tool_calls set share_micros = share_micros - 1`,
  },
  {
    description: 'a share that went to somebody else',
    rule: 'BT1',
    apply: (sql) => sql`update community_tool_calls set builder_id = gen_random_uuid()`,
  },
  {
    description: 'a refund that was charged',
    rule: 'BT1',
    apply: (sql) => sql`update community_tool_calls set ok = false`,
  },
  {
    description: 'a builder that paid its own share',
    rule: 'BT1',
    apply: (sql) => sql`update community_tool_calls set payer = builder_id::text`,
  },
  {
    description: 'a tool in another state than its actor',
    rule: 'BT2',
    apply: (sql) => sql`update community_tools set state = 'listed'`,
  },
  {
    description: 'a tool without its last change',
    rule: 'BT2',
    apply: (sql) => sql`delete from community_tool_changes`,
  },
  {
    description: 'a tool beside the number of tools of its builder',
    rule: 'BT3',
    apply: (sql) => sql`delete from community_tool_places`,
  },
]
