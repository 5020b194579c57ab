/** What the name of a host's folder begins with. */
export const BROWSER_TEMP_PREFIX = 'gas-browser-'

/** What the station asks of a browser host; each question has a number, and gets one answer. */
export type BrowserHostRequest =
  | {
      readonly op: 'launch'
      readonly executable: string
      readonly sandbox: boolean
      readonly path: string
      /** Stands behind Chromium's own User-Agent. */
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
  /** Ends Chromium and then the host; there is no answer but that end. */
  | { readonly op: 'quit' }

/** Also the permission for what a host announced with `before`. */
export type MessageToBrowserHost =
  | ({ readonly id: number } & BrowserHostRequest)
  | { readonly go: number; readonly may: boolean }

/** What went wrong with a page; `url` is what could not be loaded. */
export interface PageFailure {
  readonly kind: 'failed' | 'network' | 'timeout'
  readonly detail: string
  readonly url?: string
}

export interface PageSnapshot {
  readonly html: string
  readonly truncated: boolean
  readonly url: string
  readonly status: number
  readonly contentType: string | null
}

export type MessageFromBrowserHost =
  | { readonly id: number; readonly value: PageSnapshot | LaunchedChromium | null }
  | { readonly id: number; readonly fault: PageFailure }
  /** The next act of this question may have effects; nothing is done until it is allowed. */
  | { readonly before: number }
  /** The page of this session has sent something that may have effects, which nobody announced. */
  | { readonly sent: number }

export interface LaunchedChromium {
  /** Of Chromium: it leads a group of its own. */
  readonly pid: number
}

/** A page that does not do what it was asked. */
export class PageActionError extends Error {
  readonly fault: PageFailure
  constructor(fault: PageFailure) {
    super(fault.detail)
    this.fault = fault
  }
}
