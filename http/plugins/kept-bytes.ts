import type { FastifyContextConfig, FastifyRequest } from 'fastify'
import { LIMITS } from '../../core/limits.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'
import type { RequestHook, ResponseHook } from './request-hooks.ts'

/** Counts what writes of agents keep in the database against their day (decision 391). */

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

/** What a write of the route keeps beside its body; 0 where nothing is kept, or where something else counts it. */
export function keptBytesOfRoute(method: string, config: FastifyContextConfig): number {
  const { keeps = LIMITS.keptBytesPerWrite, rate, runsTools } = config
  // Removing frees what was counted when it was made. Calls of tools count by their price.
  const isFree = ['GET', 'HEAD', 'OPTIONS', 'DELETE'].includes(method)
  return isFree || rate === 'refuel' || runsTools === true ? 0 : keeps
}

function keptBytesOf({ agentId, method, headers, routeOptions }: FastifyRequest): number {
  if (agentId === '') return 0
  const keeps = keptBytesOfRoute(method, routeOptions.config)
  return keeps === 0
    ? 0
    : keeps + LIMITS.keptCopies * Number(headers['content-length'] ?? LIMITS.bodyBytes)
}

const kindOf = ({ routeOptions }: FastifyRequest): 'managing' | undefined =>
  routeOptions.config.servesFrozen === true ? 'managing' : undefined
