import type { BrowserContext, Request } from 'playwright-core'
import { isAnalyticsRequest } from './analytics-hosts.ts'

/** What pages send that may have effects, whoever made them send it: no beacons, nothing to collectors. */
export interface SideEffectWatcher {
  /** What a page does while it is looked at is its own affair, until something is done on it. */
  stopWatching(): void
  /** From here on it is because of us; `leads` is where a link goes that is followed. */
  startWatching(leads: string | null): void
}

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS'])
const ANY_DESTINATION = Symbol('anywhere')

/** Calls `tell` for each; a page cannot hide its requests, as it can what its elements look like. */
export function watchSideEffects(context: BrowserContext, tell: () => void): SideEffectWatcher {
  let isActing = false
  let expected: string | null | typeof ANY_DESTINATION = ANY_DESTINATION

  context.on('request', (request) => {
    if (!isActing) return
    if (!SAFE_METHODS.has(request.method())) return isTrackingRequest(request) ? undefined : tell()
    if (!isDocumentRequest(request) || request.redirectedFrom() !== null) return
    const led = expected
    // What the next page does in its turn is its own affair again.
    expected = ANY_DESTINATION
    if (led !== ANY_DESTINATION && (led === null || stripRequestUrlHash(request.url()) !== led))
      tell()
  })
  context.on('page', (page) => {
    page.on('websocket', (socket) => {
      socket.on('framesent', () => {
        if (isActing && !isAnalyticsRequest(socket.url(), page.url())) tell()
      })
    })
  })

  return {
    stopWatching() {
      isActing = false
    },
    startWatching(leads) {
      isActing = true
      expected = leads === null ? null : stripRequestUrlHash(leads)
    },
  }
}

/**
 * Whether it only tells somebody that something was done: a beacon, or what goes to a collector. In
 * doubt it does not, and what leads to a document never does.
 */
function isTrackingRequest(request: Request): boolean {
  if (request.isNavigationRequest()) return false
  if (request.resourceType() === 'ping') return true
  try {
    return isAnalyticsRequest(request.url(), request.frame().page().url())
  } catch {
    return false
  }
}

/** Of a page or a window, and not of a frame in one. */
function isDocumentRequest(request: Request): boolean {
  if (!request.isNavigationRequest()) return false
  try {
    return request.frame().parentFrame() === null
  } catch {
    // The window that it is for is still being made.
    return true
  }
}

export function stripRequestUrlHash(url: string): string {
  const [bare = ''] = url.split('#')
  return bare
}
