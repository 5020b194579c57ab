import { ServiceError } from '../../core/errors.ts'
import { createSharedRoom } from '../../core/concurrency/shared-room.ts'
import { LIMITS } from '../../core/limits.ts'
import type { RequestHook } from './request-hooks.ts'

/** Bounds the bodies that a node reads at a time (decision 490): each is kept in memory until its last byte. */

const BODILESS = new Set(['GET', 'HEAD', 'TRACE'])

/** Throws 503 `overloaded` where the room is full; a large holder gives way, and its request is refused so. */
export function createBodyRoom(): RequestHook {
  // Apart: callers without a key take nothing from agents.
  const keyless = createSharedRoom(LIMITS.bodyRoomBytes)
  const keyed = createSharedRoom(LIMITS.bodyRoomBytes)
  return ({ agentId, caller, headers, method, raw, routeOptions }, reply) => {
    const { 'content-length': stated, 'transfer-encoding': coding } = headers
    const limit = routeOptions.bodyLimit ?? LIMITS.bodyBytes
    const bytes = coding === undefined ? Number(stated ?? 0) : limit
    if (bytes === 0 || raw.complete || BODILESS.has(method)) return
    const [room, holder] =
      agentId === '' ? [keyless, caller.siteId ?? caller.visitorId] : [keyed, agentId]
    const leave = room.take(holder, bytes, () => {
      reply.header('connection', 'close')
      // The reader of the body passes it on as the answer.
      if (raw.listenerCount('error') > 0) raw.emit('error', roomFullError())
      else raw.destroy()
    })
    if (leave === null) {
      reply.header('connection', 'close')
      throw roomFullError()
    }
    raw.once('end', leave).once('close', leave)
  }
}

const roomFullError = (): ServiceError =>
  new ServiceError('overloaded', {
    detail: 'This node reads too many bodies at a time: send yours again.',
    retry_after: 2,
  })
