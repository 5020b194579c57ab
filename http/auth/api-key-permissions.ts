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

/** A key passes on no right that it lacks, so the last one with all of them is the only way to the wallet's money. */
const mayDoAll = (key: ManagerKey): boolean =>
  canManageKeys(key) && key.scopes.includes(WILDCARD_SCOPE)

/**
 * Throws 409 when ending a key would leave its agent without a lasting key that may do all it may, be it all or the
 * management of keys. A key with an expiry does not last; it may end where another such key remains. `others` are the
 * working keys that remain.
 */
export function assertKeyManagerRemains(ended: ManagerKey, others: readonly ManagerKey[]): void {
  if (!canManageKeys(ended)) return
  const equals = others.filter(mayDoAll(ended) ? mayDoAll : canManageKeys)
  if (equals.some(({ expiresAt }) => expiresAt === null)) return
  if (ended.expiresAt !== null && equals.length > 0) return
  throw new ServiceError('last_key', { key_id: ended.id })
}
