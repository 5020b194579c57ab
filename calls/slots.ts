import { ServiceError } from '../core/errors.ts'
import { LIMITS } from '../core/limits.ts'
import type { CallRow } from '../core/rows.ts'
import {
  slotFree,
  slotsLeft,
  slotTake,
  slotUse,
  type SlotUse,
} from '../payments/commands/visitor.ts'
import type { CallParts } from './calls.ts'
import type { Plan } from './plan.ts'
import { touching, type Ticket } from './ticket.ts'

interface Visitor {
  readonly id: string
  readonly limit: number
}

/** Whose free calls are counted: an address, and the IPv6 /48 around it (decision 155). */
function visitorsOf({ freePerDay, request: { caller } }: Plan): [Visitor, Visitor?] {
  const limit = freePerDay ?? 0
  const address = { id: caller.visitorId, limit }
  if (caller.siteId === null) return [address]
  return [address, { id: caller.siteId, limit: limit * LIMITS.siteShares }]
}

const all = (plan: Plan): Visitor[] => visitorsOf(plan).filter((visitor) => visitor !== undefined)

/** Holds a free call of the day; false where there is none left. */
export async function takeSlot(parts: CallParts, plan: Plan, callId: string): Promise<boolean> {
  if (plan.freePerDay === null) return false
  try {
    for (const { id, limit } of all(plan))
      await parts.actors.ask(id, slotTake, { callId, tool: plan.tool.slug, limit })
    return true
  } catch (error) {
    giveSlotBack(parts, plan, callId)
    if (error instanceof ServiceError && error.code === 'free_tier_exhausted') return false
    throw error
  }
}

/** The free calls that are left today; null for a tool without any. */
export async function slotsFree(parts: CallParts, plan: Plan): Promise<number | null> {
  if (plan.freePerDay === null) return null
  const left = all(plan).map(({ id, limit }) =>
    parts.actors.ask(id, slotsLeft, { tool: plan.tool.slug, limit }),
  )
  return Math.min(...(await Promise.all(left)))
}

/** Lets a held free call go; it was not used. */
export function giveSlotBack(parts: CallParts, plan: Plan, callId: string): void {
  for (const { id } of all(plan)) parts.actors.letGo(id, callId)
}

/** Uses a held free call up, with the record of a caller without a key; answers when it was held. */
export async function useSlot(
  parts: CallParts,
  { plan, callId }: Ticket,
  record: SlotUse['record'],
): Promise<number> {
  const tool = plan.tool.slug
  const [address, site] = visitorsOf(plan)
  // The site first: what is recorded with the address is final.
  if (site !== undefined)
    await parts.actors.ask(site.id, slotUse, { callId, tool, limit: site.limit, record: null })
  try {
    const slot = { callId, tool, limit: address.limit, record }
    const { at } = await parts.actors.ask(
      address.id,
      slotUse,
      slot,
      record === null ? {} : touching(plan),
    )
    return at
  } catch (error) {
    if (site !== undefined)
      await freeAt(parts, plan, site.id, { callId, usedAt: parts.clock.now() })
    throw error
  }
}

/** Gives a free call back, also one that was used; keeps the row of a caller without a key. */
export async function freeSlot(
  parts: CallParts,
  { plan, callId }: Ticket,
  usedAt: number | null,
  row: CallRow | null,
): Promise<void> {
  const [address, site] = visitorsOf(plan)
  const freed = { callId, tool: plan.tool.slug, usedAt, row }
  await parts.actors.ask(address.id, slotFree, freed, touching(plan))
  if (site === undefined) return
  if (usedAt === null) parts.actors.letGo(site.id, callId)
  else await freeAt(parts, plan, site.id, { callId, usedAt })
}

const freeAt = (
  parts: CallParts,
  { tool }: Plan,
  id: string,
  freed: { callId: string; usedAt: number },
) => parts.actors.ask(id, slotFree, { ...freed, tool: tool.slug, row: null })
