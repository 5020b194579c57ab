import type { FastifyRequest } from 'fastify'
import type { SpendingKeyAndBackpack } from '../../payments/agent-call-admission-request-types.ts'
import {
  resolveRequestBackpackId,
  boundBackpackIdOf,
} from './request-backpack-and-key-binding-check.ts'
import { assertUncappedKey } from '../plugins/auth.ts'

/** Returns the spending limits of a request: its key and its Backpack. */
export const toRequestSpendingLimits = (request: FastifyRequest): SpendingKeyAndBackpack => ({
  key: request.caller.key,
  backpackId: resolveRequestBackpackId(request),
})

/**
 * Throws for a capped key that is not bound. A bound key spends within its caps and its fuse, which count it
 * (decision 62).
 */
export function assertKeyUncappedOrBackpackBound(request: FastifyRequest, action: string): void {
  if (boundBackpackIdOf(request) === null) assertUncappedKey(request, action)
}

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
