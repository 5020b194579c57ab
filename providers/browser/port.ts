/** A page as a browser shows it, after its scripts have run. */
export interface RenderedPage {
  /**
   * The document as it stands then, serialized; what is beyond the limit is cut off. The bytes of its
   * answer where nothing runs its scripts.
   */
  readonly html: Uint8Array | string
  readonly truncated: boolean
  /** Where its redirects and scripts ended. */
  readonly url: string
  /** Of the answer that the document came in. */
  readonly status: number
  readonly contentType: string | null
}

/** Which control of a page is meant: a name, label, placeholder or id as a person would say it. */
export type ControlName = string

/** One page in a context of its own, with its own cookies; it is gone with `close`. */
export interface BrowserSession {
  goto(url: string): Promise<void>
  /**
   * `told` is called whenever the page itself sends something that may have effects, because of what
   * was done on it: a request other than GET, or the way to a page that no link named.
   */
  onSideEffect(told: () => void): void
  /** Writes into a text field, a text area or another control that takes text. */
  fill(control: ControlName, value: string): Promise<void>
  /** Chooses by the text or the value of an option. */
  select(control: ControlName, option: string): Promise<void>
  /** A checkbox or a radio button. */
  check(control: ControlName): Promise<void>
  /**
   * A link or a button by what it says. `before` is called when it may do more than lead to another
   * page, right before it is done.
   */
  click(target: string, before: () => void): Promise<void>
  /** The form named, or the one that was written in last, or the only one. */
  submit(form: string | null, before: () => void): Promise<void>
  wait(ms: number): Promise<void>
  /** The page as it stands now. */
  page(): Promise<RenderedPage>
  close(): Promise<void>
}

export interface BrowserSessionRequest {
  /** Places are shared out by owner. */
  readonly owner: string
  readonly signal: AbortSignal
}

export interface RenderPageRequest extends BrowserSessionRequest {
  readonly url: string
  /** Of the whole visit, once it has a place; 20 s where it is not given. */
  readonly timeoutMs?: number
}

/** A browser of this node; every page of it is loaded through the egress guard. */
export interface HeadlessBrowser {
  /** False where it was tried and did not start: whoever asks is served without it. */
  isAvailable(): boolean
  /**
   * Opens a page, lets its scripts run and tells what it shows then. Rejects with `blocked_url`,
   * `upstream_error`, `upstream_timeout`; with `browser_busy` when no context is free in time or the
   * browser died; with `provider_not_configured` where it does not start.
   */
  render(request: RenderPageRequest): Promise<RenderedPage>
  /** A page to act on. Rejects with `browser_busy` or `provider_not_configured`. */
  openSession(visitor: BrowserSessionRequest): Promise<BrowserSession>
}
