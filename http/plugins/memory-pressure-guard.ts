import { getHeapStatistics } from 'node:v8'
import { SECOND } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import type { HttpServices } from '../http-config-and-service-types.ts'
import type { RequestHook } from './request-hooks.ts'

/** Refuses new requests while the heap is nearly full. */

/** Above this share of the heap new requests get 503, so that running ones can finish. */
const MAX_HEAP_SHARE = 0.95
const SAMPLE_INTERVAL_MS = SECOND
/** Health is answered in any state; a full node is alive and not ready. */
const HEALTH_PATHS = new Set(['/api/network/health', '/health', '/healthz', '/livez'])

/** Reads the size of the heap at most once a second, with a request: a node without requests reads nothing. */
export function createMemoryPressureGuard(
  { clock }: Pick<HttpServices, 'clock'>,
  heap: () => { used_heap_size: number; heap_size_limit: number } = getHeapStatistics,
): RequestHook {
  let isFull = false
  let nextSampleAt = -Infinity
  return (request) => {
    const now = clock.mono()
    if (now >= nextSampleAt) {
      nextSampleAt = now + SAMPLE_INTERVAL_MS
      const { used_heap_size: used, heap_size_limit: limit } = heap()
      isFull = used > limit * MAX_HEAP_SHARE
    }
    if (isFull && !HEALTH_PATHS.has(request.url))
      throw new ServiceError('unavailable', { retry_after: 2 })
  }
}
