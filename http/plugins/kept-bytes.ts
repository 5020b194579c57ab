import type { FastifyRequest } from 'fastify'
import { LIMITS } from '../../core/limits.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'
import type { RequestHook, ResponseHook } from './request-hooks.ts'

/** Counts what writes of agents keep in the database against their day (decision 391). */

/** The text of a body is stored at most so often: in its row, and in the event or the journal. */
const COPIES = 2

/** Counts a write before it runs; throws 429 `daily_bytes_exceeded`. */
export const createKeptBytesCharge =
  ({ keptBytes }: Pick<HttpServices, 'keptBytes'>): RequestHook =>
  (request) => {
    const bytes = keptBytesOf(request)
    return bytes > 0 ? keptBytes.take(request.agentId, bytes, kindOf(request)) : undefined
  }

/** Returns the bytes of a write that was refused. */
export const createKeptBytesReturn =
  ({ keptBytes }: Pick<HttpServices, 'keptBytes'>): ResponseHook =>
  (request, { statusCode }) => {
    const bytes = statusCode < 400 || statusCode === 429 ? 0 : keptBytesOf(request)
    if (bytes > 0) keptBytes.giveBack(request.agentId, bytes, kindOf(request))
  }

/** What the route keeps at most; 0 where nothing is kept, or where something else counts it. */
function keptBytesOf({ agentId, method, headers, routeOptions }: FastifyRequest): number {
  const { keeps = LIMITS.keptBytesPerWrite, rate, runsTools } = routeOptions.config
  const reads = method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
  // Removing frees what was counted when it was made. Calls of tools count by their price.
  if (agentId === '' || reads || method === 'DELETE') return 0
  if (rate === 'refuel' || runsTools === true || keeps === 0) return 0
  return keeps + COPIES * Number(headers['content-length'] ?? LIMITS.bodyBytes)
}

const kindOf = ({ routeOptions }: FastifyRequest): 'managing' | undefined =>
  routeOptions.config.servesFrozen === true ? 'managing' : undefined
