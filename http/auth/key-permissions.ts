import { ServiceError } from '../../core/errors.ts'
import type { ApiKeyTerms } from '../../domain/api-key-terms.ts'
import { WILDCARD_SCOPE, type ApiKeyRecord } from '../../persistence/agents/api-key-store.ts'

/** Whether a key may be used for something. */
export const hasKeyScope = ({ scopes }: Pick<ApiKeyRecord, 'scopes'>, scope: string): boolean =>
  scopes.includes(WILDCARD_SCOPE) || scopes.includes(scope)

/** Whether what a key may spend is bounded, in all, a day or a month. */
export const hasSpendingCap = ({ cap, capPerDay, capPerMonth }: ApiKeyTerms): boolean =>
  cap !== null || capPerDay !== null || capPerMonth !== null

/** What decides whether a key can manage the keys of its agent, and for how long. */
interface ManagerKey extends ApiKeyTerms {
  readonly scopes: readonly string[]
  readonly expiresAt: Date | null
}

/** Whether a key can make, rotate and revoke keys: it has the scope, no cap and no binding. */
const canManageKeys = (key: ManagerKey): boolean =>
  key.backpackId === null && !hasSpendingCap(key) && hasKeyScope(key, 'keys')

/**
 * Rejects (409) the end of a key that would leave its agent without a lasting way to manage its keys:
 * nobody could ever make another one. A key with an expiry is no lasting way; it may end where another
 * one that manages works on. `others` are the working keys that remain.
 */
export function assertKeyManagerRemains(ended: ManagerKey, others: readonly ManagerKey[]): void {
  if (!canManageKeys(ended)) return
  const managers = others.filter(canManageKeys)
  if (managers.some(({ expiresAt }) => expiresAt === null)) return
  if (ended.expiresAt !== null && managers.length > 0) return
  throw new ServiceError('last_key', { key_id: ended.id })
}
