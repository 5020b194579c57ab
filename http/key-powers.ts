import { ServiceError } from '../core/errors.ts'
import type { KeyTerms } from '../core/key-terms.ts'
import { ALL_SCOPES, type KeyRecord } from '../persistence/keys.ts'

/** Whether a key may be used for something. */
export const allows = ({ scopes }: Pick<KeyRecord, 'scopes'>, scope: string): boolean =>
  scopes.includes(ALL_SCOPES) || scopes.includes(scope)

/** Whether what a key may spend is bounded, in all, a day or a month. */
export const hasCap = ({ cap, capPerDay, capPerMonth }: KeyTerms): boolean =>
  cap !== null || capPerDay !== null || capPerMonth !== null

/** What decides whether a key can manage the keys of its agent, and for how long. */
interface Managing extends KeyTerms {
  readonly scopes: readonly string[]
  readonly expiresAt: Date | null
}

/** Whether a key can make, rotate and revoke keys: it has the scope, no cap and no binding. */
const canManage = (key: Managing): boolean =>
  key.backpackId === null && !hasCap(key) && allows(key, 'keys')

/**
 * Rejects (409) the end of a key that would leave its agent without a lasting way to manage its keys:
 * nobody could ever make another one. A key with an expiry is no lasting way; it may end where another
 * one that manages works on. `others` are the working keys that remain.
 */
export function assertManagedWithout(ended: Managing, others: readonly Managing[]): void {
  if (!canManage(ended)) return
  const managers = others.filter(canManage)
  if (managers.some(({ expiresAt }) => expiresAt === null)) return
  if (ended.expiresAt !== null && managers.length > 0) return
  throw new ServiceError('last_key', { key_id: ended.id })
}
