import { unpaidCallMutants } from './unpaid-call-mutants.ts'
import { keyPermissionMutants } from './key-permission-mutants.ts'
import type { ServiceMutant } from './service-mutant.ts'
import { unpaidStorageMutants } from './unpaid-storage-mutants.ts'
import { promoCreditLeakMutants } from './promo-credit-leak-mutants.ts'

/** All mutations by name. */
export const ADVERSARY_SERVICE_MUTANTS: Readonly<Record<string, ServiceMutant>> = {
  ...unpaidCallMutants,
  ...promoCreditLeakMutants,
  ...keyPermissionMutants,
  ...unpaidStorageMutants,
}
