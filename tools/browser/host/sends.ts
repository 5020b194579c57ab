import type { BrowserContext, Request } from 'playwright-core'
import { isCollected } from './collectors.ts'

/** What pages send that may have effects, whoever made them send it: no beacons, nothing to collectors. */
export interface Sends {
  /** What a page does while it is looked at is its own affair, until something is done on it. */
  looking(): void
  /** From here on it is because of us; `leads` is where a link goes that is followed. */
  acting(leads: string | null): void
}

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS'])
const ANYWHERE = Symbol('anywhere')

/** Calls `tell` for each; a page cannot hide its requests, as it can what its elements look like. */
export function watchSends(context: BrowserContext, tell: () => void): Sends {
  let isActing = false
  let expected: string | null | typeof ANYWHERE = ANYWHERE

  context.on('request', (request) => {
    if (!isActing) return
    if (!SAFE.has(request.method())) return isTracking(request) ? undefined : tell()
    if (!isDocument(request) || request.redirectedFrom() !== null) return
    const led = expected
    // What the next page does in its turn is its own affair again.
    expected = ANYWHERE
    if (led !== ANYWHERE && (led === null || withoutHash(request.url()) !== led)) tell()
  })
  context.on('page', (page) => {
    page.on('websocket', (socket) => {
      socket.on('framesent', () => {
        if (isActing && !isCollected(socket.url(), page.url())) tell()
      })
    })
  })

  return {
    looking() {
      isActing = false
    },
    acting(leads) {
      isActing = true
      expected = leads === null ? null : withoutHash(leads)
    },
  }
}

/**
 * Whether it only tells somebody that something was done: a beacon, or what goes to a collector. In
 * doubt it does not, and what leads to a document never does.
 */
function isTracking(request: Request): boolean {
  if (request.isNavigationRequest()) return false
  if (request.resourceType() === 'ping') return true
  try {
    return isCollected(request.url(), request.frame().page().url())
  } catch {
    return false
  }
}

/** Of a page or a window, and not of a frame in one. */
function isDocument(request: Request): boolean {
  if (!request.isNavigationRequest()) return false
  try {
    return request.frame().parentFrame() === null
  } catch {
    // The window that it is for is still being made.
    return true
  }
}

export function withoutHash(url: string): string {
  const [bare = ''] = url.split('#')
  return bare
}
