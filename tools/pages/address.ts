import { elementsOf, type PageElement } from './tree.ts'

/** What the addresses of a page are relative to: its `<base>`, else itself. */
export function baseOf(root: PageElement, url: string): URL {
  const page = new URL(url)
  for (const element of elementsOf(root)) {
    const href = element.name === 'base' ? element.attributes.get('href') : undefined
    if (href === undefined) continue
    const base = absolute(href, page)
    // A long one would be repeated in every address of the page.
    return base === null || base.href.length > LONGEST_BASE ? page : base
  }
  return page
}

/** An address as a browser takes it; null where it is none. */
export function absolute(href: string, base: URL): URL | null {
  const text = href.slice(0, LONGEST)
  return URL.canParse(text, base.href) ? new URL(text, base) : null
}

/** Where a form leads: to its page where it does not say, whatever `<base>` the page has. */
export const actionOf = (written: string, page: URL, base: URL): URL | null =>
  written.trim() === '' ? page : absolute(written, base)

const LONGEST = 8_192
const LONGEST_BASE = 2_048
