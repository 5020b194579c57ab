import { descendantElements, type HtmlElement } from './html-parser.ts'

/** Returns the base URL of a page: its `<base>`, else its own address. */
export function findPageBaseUrl(root: HtmlElement, url: string): URL {
  const page = new URL(url)
  for (const element of descendantElements(root)) {
    const href = element.name === 'base' ? element.attributes.get('href') : undefined
    if (href === undefined) continue
    const base = resolvePageHref(href, page)
    // A long base would be repeated in every address of the page.
    return base === null || base.href.length > MAX_BASE_URL_CHARS ? page : base
  }
  return page
}

/** Parses an address as browsers do; returns null for an invalid one. */
export function resolvePageHref(href: string, base: URL): URL | null {
  const text = href.slice(0, MAX_HREF_CHARS)
  return URL.canParse(text, base.href) ? new URL(text, base) : null
}

/** Returns the target of a form; without an action it is the page, for any `<base>`. */
export const formActionUrl = (written: string, page: URL, base: URL): URL | null =>
  written.trim() === '' ? page : resolvePageHref(written, base)

const MAX_HREF_CHARS = 8_192
const MAX_BASE_URL_CHARS = 2_048
