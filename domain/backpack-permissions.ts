/**
 * Ways to spend that a Backpack permits only where its list of tools names them: credits sent to other
 * agents, tips, posted bounties, and purchases (packs among them).
 */
export const SPENDING_PERMISSIONS = ['agent_send', 'tip', 'bounty', 'purchase'] as const
export type SpendingPermission = (typeof SPENDING_PERMISSIONS)[number]

/** Tools that are purchases: they may be named themselves, or by `purchase`. */
const PURCHASES: ReadonlySet<string> = new Set(['pack_install'])

const SPENDING: ReadonlySet<string> = new Set<string>([...SPENDING_PERMISSIONS, ...PURCHASES])

/** What a list may name beside the tools of the catalogue. */
export const BACKPACK_PERMISSIONS: readonly string[] = [...SPENDING_PERMISSIONS, 'signal_publish']

/** Whether a list of a Backpack permits a tool or a way to spend; null permits every tool that is no purchase. */
export function backpackPermits(tools: readonly string[] | null, name: string): boolean {
  if (tools === null) return !SPENDING.has(name)
  return tools.includes(name) || (PURCHASES.has(name) && tools.includes('purchase'))
}
