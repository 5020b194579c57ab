import { setTimeout as sleep } from 'node:timers/promises'
import type { Page, Request, Response } from 'playwright-core'
import { PageActionError } from './browser-host-protocol.ts'

/** Tracks the requests of a page and the response of its document. */
export interface PageNetworkMonitor {
  readonly status: () => number
  readonly contentType: () => string | null
  /** Forgets earlier failures. */
  reset(): void
  /** Resolves when nothing has loaded for `quietMs`; rejects where the document failed. */
  waitForIdle(quietMs: number): Promise<void>
}

const NETWORK_POLL_MS = 50
/** Pages that never become idle are used as they are after this; a document gets longer. */
const MAX_IDLE_WAIT_MS = 4_000
const DOCUMENT_TIMEOUT_MS = 15_000
/** Statuses by which the proxy reports an unreachable host; over TLS a status always comes from the site. */
const isProxyErrorStatus = (status: number, url: string): boolean =>
  status >= 590 && status <= 599 && url.startsWith('http:')

export function monitorPageNetwork(page: Page): PageNetworkMonitor {
  const open = new Set<Request>()
  let [status, contentType, failure]: [number, string | null, PageActionError | null] = [
    0,
    null,
    null,
  ]
  const isDocument = (request: Request) =>
    request.isNavigationRequest() && request.frame() === page.mainFrame()
  const navigating = () => [...open].some(isDocument)
  const end = (request: Request) => open.delete(request)

  page.on('request', (request) => open.add(request))
  page.on('requestfinished', end)
  page.on('requestfailed', (request) => {
    end(request)
    const { errorText = 'failed' } = request.failure() ?? {}
    // A page may replace its document by another before it has loaded.
    if (isDocument(request) && errorText !== 'net::ERR_ABORTED')
      failure = new PageActionError({ kind: 'network', detail: errorText, url: request.url() })
  })
  page.on('response', (response: Response) => {
    const request = response.request()
    if (!isDocument(request)) return
    status = response.status()
    contentType = response.headers()['content-type'] ?? null
    failure = isProxyErrorStatus(status, request.url())
      ? new PageActionError({ kind: 'network', detail: 'no connection', url: request.url() })
      : null
  })

  return {
    status: () => status,
    contentType: () => contentType,
    reset() {
      failure = null
    },
    async waitForIdle(quietMs) {
      let [quiet, waited] = [0, 0]
      while (quiet < quietMs && waited < (navigating() ? DOCUMENT_TIMEOUT_MS : MAX_IDLE_WAIT_MS)) {
        await sleep(NETWORK_POLL_MS)
        waited += NETWORK_POLL_MS
        quiet = open.size === 0 ? quiet + NETWORK_POLL_MS : 0
        if (page.isClosed()) break
      }
      if (failure !== null) throw failure
      if (navigating())
        throw new PageActionError({ kind: 'timeout', detail: 'the page did not load in time' })
    },
  }
}
