/**
 * Ways to spend that a Backpack must list explicitly: sends to agents, tips, bounties, and
 * purchases (including packs).
 */
export const EXPLICIT_BACKPACK_SPENDING_PERMISSIONS = [
  'agent_send',
  'tip',
  'bounty',
  'purchase',
] as const
export type BackpackSpendingPermissionName = (typeof EXPLICIT_BACKPACK_SPENDING_PERMISSIONS)[number]

/** Tools that are purchases, permitted by their name or by `purchase`. */
const PURCHASES: ReadonlySet<string> = new Set(['pack_install'])

const SPENDING: ReadonlySet<string> = new Set<string>([
  ...EXPLICIT_BACKPACK_SPENDING_PERMISSIONS,
  ...PURCHASES,
])

/** Names that a Backpack's list accepts besides tools. */
export const BACKPACK_NON_TOOL_PERMISSIONS: readonly string[] = [
  ...EXPLICIT_BACKPACK_SPENDING_PERMISSIONS,
  'signal_publish',
]

/**
 * Whether a Backpack permits a tool or a way to spend. Null permits all tools that are no purchase.
 */
export function backpackPermits(tools: readonly string[] | null, name: string): boolean {
  if (tools === null) return !SPENDING.has(name)
  return tools.includes(name) || (PURCHASES.has(name) && tools.includes('purchase'))
}
