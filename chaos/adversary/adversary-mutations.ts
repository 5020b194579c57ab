import { callMutations } from './call-mutations.ts'
import { keyMutations } from './key-mutations.ts'
import type { ServiceMutation } from './service-mutation.ts'
import { storageMutations } from './storage-mutations.ts'
import { valueMutations } from './value-mutations.ts'

/** All mutations by name. */
export const ADVERSARY_MUTATIONS: Readonly<Record<string, ServiceMutation>> = {
  ...callMutations,
  ...valueMutations,
  ...keyMutations,
  ...storageMutations,
}
