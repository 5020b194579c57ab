import { addressBounds, type CountedCaller } from '../core/address-bounds.ts'
import { ServiceError } from '../core/errors.ts'
import type { CallRow } from '../core/aggregate-commit-row-types.ts'
import {
  releaseFreeCallCommand,
  getFreeCallsLeftCommand,
  reserveFreeCallCommand,
  consumeFreeCallCommand,
  type UseFreeCallInput,
} from '../payments/commands/daily-free-call-commands.ts'
import type { CallDeps } from './call-request-and-reply-types.ts'
import type { ValidatedPricedCall } from './parse-and-price-call.ts'
import { listActorsToLoadForCall, type AdmittedCall } from './admitted-call.ts'

/** Daily free calls of addresses: hold, use, return. */

interface SlotVisitor {
  readonly id: string
  readonly limit: number
}

/** The counted visitors: the address, and its IPv6 /48 (decision 155). */
function visitorsOf({
  freePerDay,
  request: { caller },
}: ValidatedPricedCall): [SlotVisitor, SlotVisitor?] {
  const [address, site] = addressBounds(caller)
  const toVisitor = ({ id, factor }: CountedCaller) => ({ id, limit: (freePerDay ?? 0) * factor })
  return site === undefined ? [toVisitor(address)] : [toVisitor(address), toVisitor(site)]
}

const listVisitors = (plan: ValidatedPricedCall): SlotVisitor[] =>
  visitorsOf(plan).filter((visitor) => visitor !== undefined)

/** Holds a free call of the day. Returns false when none is left. */
export async function holdDailyFreeCall(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
): Promise<boolean> {
  if (plan.freePerDay === null) return false
  try {
    for (const { id, limit } of listVisitors(plan))
      await parts.actors.ask(id, reserveFreeCallCommand, { callId, tool: plan.tool.slug, limit })
    return true
  } catch (error) {
    releaseDailyFreeCall(parts, plan, callId)
    if (error instanceof ServiceError && error.code === 'free_tier_exhausted') return false
    throw error
  }
}

/** Free calls left today; null for tools without any. */
export async function countFreeCallsLeftToday(
  parts: CallDeps,
  plan: ValidatedPricedCall,
): Promise<number | null> {
  if (plan.freePerDay === null) return null
  const left = listVisitors(plan).map(({ id, limit }) =>
    parts.actors.ask(id, getFreeCallsLeftCommand, { tool: plan.tool.slug, limit }),
  )
  return Math.min(...(await Promise.all(left)))
}

/** Releases a held free call. */
export function releaseDailyFreeCall(
  parts: CallDeps,
  plan: ValidatedPricedCall,
  callId: string,
): void {
  for (const { id } of listVisitors(plan)) parts.actors.releaseHold(id, callId)
}

/**
 * Uses a held free call and writes the row of an anonymous caller. Returns the time of the hold.
 */
export async function consumeDailyFreeCall(
  parts: CallDeps,
  { plan, callId }: AdmittedCall,
  record: UseFreeCallInput['record'],
): Promise<number> {
  const tool = plan.tool.slug
  const [address, site] = visitorsOf(plan)
  // The /48 first: the row written with the address is final.
  if (site !== undefined)
    await parts.actors.ask(site.id, consumeFreeCallCommand, {
      callId,
      tool,
      limit: site.limit,
      record: null,
    })
  try {
    const slot = { callId, tool, limit: address.limit, record }
    const { at } = await parts.actors.ask(
      address.id,
      consumeFreeCallCommand,
      slot,
      record === null ? {} : listActorsToLoadForCall(plan),
    )
    return at
  } catch (error) {
    if (site !== undefined)
      await refundVisitorSlot(parts, plan, site.id, { callId, usedAt: parts.clock.now() })
    throw error
  }
}

/** Returns a held or used free call and writes the row of an anonymous caller. */
export async function refundDailyFreeCall(
  parts: CallDeps,
  { plan, callId }: AdmittedCall,
  usedAt: number | null,
  row: CallRow | null,
): Promise<void> {
  const [address, site] = visitorsOf(plan)
  const freed = { callId, tool: plan.tool.slug, usedAt, row }
  await parts.actors.ask(address.id, releaseFreeCallCommand, freed, listActorsToLoadForCall(plan))
  if (site === undefined) return
  if (usedAt === null) parts.actors.releaseHold(site.id, callId)
  else await refundVisitorSlot(parts, plan, site.id, { callId, usedAt })
}

const refundVisitorSlot = (
  parts: CallDeps,
  { tool }: ValidatedPricedCall,
  id: string,
  freed: { callId: string; usedAt: number },
) => parts.actors.ask(id, releaseFreeCallCommand, { ...freed, tool: tool.slug, row: null })
