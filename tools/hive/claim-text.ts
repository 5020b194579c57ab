import { ServiceError } from '../../core/errors.ts'
import type { HiveTexts, TextClaim } from './port.ts'

/**
 * Takes a text for the entry with the id. Answers with the author's own entry where it says the same
 * already; refuses a near copy of what another author has published.
 */
export async function claimText(
  texts: HiveTexts,
  text: Parameters<HiveTexts['claim']>[0],
  entryId: string,
): Promise<Extract<TextClaim, { state: 'written' }> | null> {
  const claim = await texts.claim(text, entryId)
  switch (claim.state) {
    case 'taken':
      return null
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
