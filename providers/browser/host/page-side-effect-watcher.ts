import type { BrowserContext, Request } from 'playwright-core'
import { isAnalyticsRequest } from './analytics-requests-without-side-effect.ts'

/**
 * Watches for requests with possible side effects from any part of the page. Beacons and analytics are
 * exempt.
 */
export interface PageSideEffectRequestWatcher {
  /** Stops: what a page sends until the next action is its own. */
  stopWatching(): void
  /** Starts: further requests result from an action. `leads` is the target of a followed link. */
  startWatching(leads: string | null): void
}

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS'])
const ANY_DESTINATION = Symbol('anywhere')

/** Calls `tell` for each such request; a page can disguise its elements, but not its requests. */
export function watchPageSideEffects(
  context: BrowserContext,
  report: () => void,
): PageSideEffectRequestWatcher {
  let isActing = false
  let expected: string | null | typeof ANY_DESTINATION = ANY_DESTINATION

  context.on('request', (request) => {
    if (!isActing) return
    if (!SAFE_METHODS.has(request.method()))
      return isTrackingRequest(request) ? undefined : report()
    if (!isDocumentRequest(request) || request.redirectedFrom() !== null) return
    const led = expected
    // What the next page sends by itself is its own again.
    expected = ANY_DESTINATION
    if (led !== ANY_DESTINATION && (led === null || stripRequestUrlHash(request.url()) !== led))
      report()
  })
  context.on('page', (page) => {
    page.on('websocket', (socket) => {
      socket.on('framesent', () => {
        if (isActing && !isAnalyticsRequest(socket.url(), page.url())) report()
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
 * Returns whether a request is a beacon or goes to a collector. Returns false in doubt, and always for
 * documents.
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

/** Returns whether a request loads the document of a page or window, not of a frame. */
function isDocumentRequest(request: Request): boolean {
  if (!request.isNavigationRequest()) return false
  try {
    return request.frame().parentFrame() === null
  } catch {
    // The window of the request is still being created.
    return true
  }
}

export function stripRequestUrlHash(url: string): string {
  const [bare = ''] = url.split('#')
  return bare
}
