import type { FastifyRequest } from 'fastify'
import type { Spender } from '../payments/admission.ts'
import { backpackOf, bindingOf } from './binding.ts'
import { demandUncapped } from './plugins/auth.ts'

/** Under whose limits a request spends: its key, and the Backpack it acts in. */
export const spenderOf = (request: FastifyRequest): Spender => ({
  key: request.caller.key,
  backpackId: backpackOf(request),
})

/** A bound key sends within its caps and its fuse, which count it; another one with a cap may not (decision 62). */
export function demandSpending(request: FastifyRequest, deed: string): void {
  if (bindingOf(request) === null) demandUncapped(request, deed)
}

/** Notes what its Backpack refuses to a request that spends, for the spend log; `name` is what it has to name. */
export async function noted<R>(
  request: FastifyRequest,
  name: string,
  spend: () => Promise<R>,
): Promise<R> {
  try {
    return await spend()
  } catch (error) {
    request.server.services.refusals.noteError(backpackOf(request), name, error)
    throw error
  }
}
