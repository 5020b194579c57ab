import { ServiceError } from '../../../core/errors.ts'
import type { ToolContext } from '../../define-tool.ts'
import type { HiveTextReservation } from '../../../providers/hive/hive-port.ts'

/**
 * Reserves a text for an entry until the call ends, and returns the id of the entry, or the author's own
 * entry with the same text. Throws for a near copy of another author's entry.
 */
export async function reserveHiveText(
  { hiveTexts, caller, claimant, stage }: ToolContext,
  { isPublic, content }: { readonly isPublic: boolean; readonly content: string },
  entryId: string,
): Promise<Extract<HiveTextReservation, { state: 'taken' | 'written' }>> {
  const text = { agentId: caller.agentId ?? '', isPublic, content }
  const claim = await hiveTexts.claim(text, entryId, claimant)
  switch (claim.state) {
    case 'taken':
      stage.undo(() => hiveTexts.release(text, claim.id))
      return claim
    case 'written':
      return claim
    case 'copy':
      throw new ServiceError('hive_copy', {
        entry_id: claim.id,
        detail: `Entry ${claim.id} of another author says nearly the same: build on it with something new.`,
      })
    case 'pending':
      throw new ServiceError('hive_write_pending', { retry_after: 1 })
  }
}
