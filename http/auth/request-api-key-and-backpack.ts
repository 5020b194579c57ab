import type { FastifyRequest } from 'fastify'
import type { SpendingKeyAndBackpack } from '../../payments/agent-call-admission-request-types.ts'
import { resolveRequestBackpackId } from './request-backpack-and-key-binding-check.ts'

/** Returns the spending limits of a request: its key and its Backpack. */
export const toRequestSpendingLimits = (request: FastifyRequest): SpendingKeyAndBackpack => ({
  key: request.caller.key,
  backpackId: resolveRequestBackpackId(request),
})

/** Runs `work` and logs the refusal of its Backpack in the spend log, under the permission `name`. */
export async function withBackpackRefusalLogging<R>(
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
