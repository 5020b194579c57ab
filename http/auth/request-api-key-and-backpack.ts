import type { FastifyRequest } from 'fastify'
import type { Spender } from '../../payments/agent-call-admission-request-types.ts'
import { parseTaskIdHeader } from '../http-tool-call-request.ts'
import { resolveRequestBackpackId } from './request-backpack-and-key-binding-check.ts'

/** Returns the spending limits of a request: its key, its Backpack and the task of its header (decision 471). */
export const toRequestSpendingLimits = (request: FastifyRequest): Spender => ({
  key: request.caller.key,
  backpackId: resolveRequestBackpackId(request),
  taskId: parseTaskIdHeader(request),
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
