/** A page as a browser renders it, after its scripts have run. */
export interface RenderedPage {
  /** The serialized document, cut off at the limit; the bytes of the response where no scripts run. */
  readonly html: Uint8Array | string
  readonly truncated: boolean
  /** The address after redirects and scripts. */
  readonly url: string
  /** The status of the document's response. */
  readonly status: number
  readonly contentType: string | null
}

/** Names a control of a page: a name, label, placeholder or id. */
export type PageControlName = string

/** A page in a context of its own with its own cookies, until `close`. */
export interface BrowserSession {
  goto(url: string): Promise<void>
  /**
   * Calls `callback` for every request with possible side effects that an action causes in the page: any method
   * but GET, or a navigation that no link named.
   */
  onSideEffect(callback: () => void): void
  /** Enters a text into a field or text area. */
  fill(control: PageControlName, value: string): Promise<void>
  /** Selects an option by its text or value. */
  select(control: PageControlName, option: string): Promise<void>
  /** Checks a checkbox or a radio button. */
  check(control: PageControlName): Promise<void>
  /**
   * Clicks a link or a button by its text. `before` is called right before a click that may do more than
   * navigate.
   */
  click(target: string, before: () => void): Promise<void>
  /** Submits the named form, the one last filled, or the only one. */
  submit(form: string | null, before: () => void): Promise<void>
  wait(ms: number): Promise<void>
  /** Returns the current page. */
  page(): Promise<RenderedPage>
  close(): Promise<void>
}

export interface BrowserSessionRequest {
  /** Slots are shared by owner. */
  readonly owner: string
  readonly signal: AbortSignal
}

export interface RenderPageRequest extends BrowserSessionRequest {
  readonly url: string
  /** Time limit of a visit once it has a slot; 20 s by default. */
  readonly timeoutMs?: number
}

/** The browser of this node; all its traffic passes the egress guard. */
export interface HeadlessBrowser {
  /** False after a failed start; callers continue without a browser. */
  isAvailable(): boolean
  /**
   * Opens a page, runs its scripts and returns the result. Rejects with `blocked_url`, `upstream_error` or
   * `upstream_timeout`; with `browser_busy` when no context is free in time or the browser died; with
   * `provider_not_configured` where it does not start.
   */
  render(request: RenderPageRequest): Promise<RenderedPage>
  /** Opens a page to act on. Rejects with `browser_busy` or `provider_not_configured`. */
  openSession(visitor: BrowserSessionRequest): Promise<BrowserSession>
}
