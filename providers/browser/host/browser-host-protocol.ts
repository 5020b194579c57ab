/** Prefix of a host's temporary folder. */
export const BROWSER_TEMP_PREFIX = 'gas-browser-'

/** Requests to a browser host; each has an id and gets one response. */
export type BrowserHostRequest =
  | {
      readonly op: 'launch'
      readonly executable: string
      readonly sandbox: boolean
      readonly path: string
      /** Appended to Chromium's own User-Agent. */
      readonly userAgent: string
    }
  | { readonly op: 'open'; readonly session: number; readonly proxy: string }
  | { readonly op: 'goto'; readonly session: number; readonly url: string }
  | {
      readonly op: 'fill' | 'select'
      readonly session: number
      readonly name: string
      readonly value: string
    }
  | { readonly op: 'check' | 'click'; readonly session: number; readonly name: string }
  | { readonly op: 'submit'; readonly session: number; readonly name: string | null }
  | { readonly op: 'page'; readonly session: number; readonly maxLength: number }
  | { readonly op: 'close'; readonly session: number }
  /** Ends Chromium and the host, without a response. */
  | { readonly op: 'quit' }

/** A request, or the permission for an action announced with `before`. */
export type MessageToBrowserHost =
  | ({ readonly id: number } & BrowserHostRequest)
  | { readonly go: number; readonly may: boolean }

/** A failure in a page; `url` is the address that could not be loaded. */
export interface PageFailure {
  readonly kind: 'failed' | 'network' | 'timeout'
  readonly detail: string
  readonly url?: string
}

export interface RenderedPageHtmlAndStatus {
  readonly html: string
  readonly truncated: boolean
  readonly url: string
  readonly status: number
  readonly contentType: string | null
}

export type MessageFromBrowserHost =
  | { readonly id: number; readonly value: RenderedPageHtmlAndStatus | LaunchedChromium | null }
  | { readonly id: number; readonly fault: PageFailure }
  /** The next action of this request may have side effects; the host waits for permission. */
  | { readonly before: number }
  /** The page of this session sent an unannounced request with possible side effects. */
  | { readonly sent: number }

export interface LaunchedChromium {
  /** Chromium's process id; it leads a process group of its own. */
  readonly pid: number
}

/** Thrown when a page does not do what was requested. */
export class PageActionError extends Error {
  readonly fault: PageFailure
  constructor(failure: PageFailure) {
    super(failure.detail)
    this.fault = failure
  }
}
