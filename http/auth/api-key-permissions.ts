import { ServiceError } from '../../core/errors.ts'
import type { ApiKeySpendingLimits } from '../../domain/api-key-spending-limits.ts'
import { WILDCARD_SCOPE, type ApiKeyRecord } from '../../persistence/agents/api-key-store.ts'

/** Returns whether a key has a scope. */
export const hasKeyScope = ({ scopes }: Pick<ApiKeyRecord, 'scopes'>, scope: string): boolean =>
  scopes.includes(WILDCARD_SCOPE) || scopes.includes(scope)

/** Returns whether a key has a spending cap: in total, per day or per month. */
export const hasSpendingCap = ({ cap, capPerDay, capPerMonth }: ApiKeySpendingLimits): boolean =>
  cap !== null || capPerDay !== null || capPerMonth !== null

/** The terms that decide whether, and for how long, a key can manage its agent's keys. */
interface ManagerKey extends ApiKeySpendingLimits {
  readonly scopes: readonly string[]
  readonly expiresAt: Date | null
}

/** Returns whether a key can create, rotate and revoke keys: it has the scope, no cap and no binding. */
export const canManageKeys = (key: ManagerKey): boolean =>
  key.backpackId === null && !hasSpendingCap(key) && hasKeyScope(key, 'keys')

/**
 * Throws 409 when ending a key would leave its agent without a lasting key manager. A key with an expiry does
 * not last; it may end where another manager remains. `others` are the working keys that remain.
 */
export function assertKeyManagerRemains(ended: ManagerKey, others: readonly ManagerKey[]): void {
  if (!canManageKeys(ended)) return
  const managers = others.filter(canManageKeys)
  if (managers.some(({ expiresAt }) => expiresAt === null)) return
  if (ended.expiresAt !== null && managers.length > 0) return
  throw new ServiceError('last_key', { key_id: ended.id })
}
