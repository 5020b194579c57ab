import type { FastifyRequest } from 'fastify'
import type { Spender } from '../../payments/call-admission.ts'
import { resolveRequestBackpackId, boundBackpackIdOf } from './backpack-binding.ts'
import { assertUncappedKey } from '../plugins/auth.ts'

/** Under whose limits a request spends: its key, and the Backpack it acts in. */
export const toRequestSpender = (request: FastifyRequest): Spender => ({
  key: request.caller.key,
  backpackId: resolveRequestBackpackId(request),
})

/** A bound key sends within its caps and its fuse, which count it; another one with a cap may not (decision 62). */
export function assertKeyMaySpend(request: FastifyRequest, action: string): void {
  if (boundBackpackIdOf(request) === null) assertUncappedKey(request, action)
}

/** Notes what its Backpack refuses to a request that spends, for the spend log; `name` is what it has to name. */
export async function withRefusalLogging<R>(
  request: FastifyRequest,
  name: string,
  spend: () => Promise<R>,
): Promise<R> {
  try {
    return await spend()
  } catch (error) {
    request.server.services.refusals.noteError(resolveRequestBackpackId(request), name, error)
    throw error
  }
}
