/** One step on a page. */
export type BrowserPageStep =
  | { readonly op: 'goto'; readonly url: string }
  | { readonly op: 'fill'; readonly field: string; readonly value: string }
  | { readonly op: 'select'; readonly field: string; readonly option: string }
  | { readonly op: 'check'; readonly field: string }
  | { readonly op: 'click'; readonly target: string }
  | { readonly op: 'submit'; readonly form: string | null }
  | { readonly op: 'extract'; readonly what: string }
  | { readonly op: 'wait'; readonly ms: number }

export const BROWSER_PAGE_STEP_OPS = [
  'goto',
  'fill',
  'select',
  'check',
  'click',
  'submit',
  'extract',
  'wait',
] as const

export const MAX_BROWSER_PAGE_STEPS = 20
export const MAX_BROWSER_WAIT_STEP_MS = 10_000
/** Names that can be extracted from any page. */
export const EXTRACTABLE_PAGE_PARTS = [
  'title',
  'headings',
  'links',
  'prices',
  'forms',
  'text',
] as const

/** Returns whether a text has a scheme or is a path of the same site; `example.com` may be a file name. */
export const isUrlWithSchemeOrSitePath = (text: string): boolean =>
  /^([a-z][a-z0-9+.-]*:\/\/|[/?#]|\.{1,2}\/)/i.test(text)
