import { resolvePageHref } from '../html/page-urls.ts'
import { collectVisibleElements, type HiddenElements } from '../html/hidden-elements.ts'
import type { PageHeading, PageLink } from '../page-parser-port.ts'
import { descendantElements, elementTextLine, type HtmlElement } from '../html/html-parser.ts'

/** Title, headings and links of a page. */

const MAX_HEADINGS = 200
const MAX_LISTED_LINKS = 500
const MAX_LINE_CHARS = 300
const MAX_LINK_URL_CHARS = 2_048
const MAX_LINK_NODES = 200

/** A list, and whether the page has more. */
export interface ListWithTruncatedFlag<T> {
  readonly items: readonly T[]
  readonly isTruncated: boolean
}

/** Returns the first `<title>`, else the title for sharing, else the first heading. */
export function parsePageTitle(root: HtmlElement, headings: readonly PageHeading[]): string {
  let shared = ''
  for (const element of descendantElements(root)) {
    const { name, attributes } = element
    if (name === 'title') {
      const title = elementTextLine(element, MAX_LINE_CHARS)
      if (title !== '') return title
    }
    if (name === 'meta' && attributes.get('property') === 'og:title' && shared === '')
      shared = cut(attributes.get('content') ?? '')
    if (name === 'p') break
  }
  return shared === '' ? (headings[0]?.text ?? '') : shared
}

const cut = (text: string): string => text.replace(/\s+/g, ' ').trim().slice(0, MAX_LINE_CHARS)

export function parsePageHeadings(
  root: HtmlElement,
  hidden: HiddenElements,
): ListWithTruncatedFlag<PageHeading> {
  const items: PageHeading[] = []
  for (const element of collectVisibleElements(root, hidden)) {
    if (!/^h[1-6]$/.test(element.name)) continue
    const text = elementTextLine(element, MAX_LINE_CHARS)
    if (text === '') continue
    if (items.length === MAX_HEADINGS) return { items, isTruncated: true }
    items.push({ level: Number(element.name[1]), text })
  }
  return { items, isTruncated: false }
}

const LINK_PROTOCOLS = new Set(['http:', 'https:', 'mailto:', 'tel:'])

/** Returns distinct links, without anchors of the page itself. */
export function parsePageLinks(
  root: HtmlElement,
  hidden: HiddenElements,
  base: URL,
): ListWithTruncatedFlag<PageLink> {
  const links = new Map<string, PageLink>()
  for (const element of collectVisibleElements(root, hidden)) {
    if (element.name !== 'a' && element.name !== 'area') continue
    const href = element.attributes.get('href')?.trim() ?? ''
    if (href === '' || href.startsWith('#')) continue
    const url = resolvePageHref(href, base)
    if (url === null || !LINK_PROTOCOLS.has(url.protocol) || url.href.length > MAX_LINK_URL_CHARS)
      continue
    const known = links.get(url.href)
    if (known !== undefined && known.text !== '') continue
    if (known === undefined && links.size === MAX_LISTED_LINKS)
      return { items: [...links.values()], isTruncated: true }
    links.set(url.href, { text: linkText(element), url: url.href })
  }
  return { items: [...links.values()], isTruncated: false }
}

/** Returns the text of a link, else its label, else that of its image. */
function linkText(element: HtmlElement): string {
  const text = elementTextLine(element, MAX_LINE_CHARS)
  if (text !== '') return text
  const called = element.attributes.get('aria-label') ?? element.attributes.get('title')
  if (called !== undefined) return cut(called)
  return cut(findLinkImage(element)?.attributes.get('alt') ?? '')
}

/** Returns the first image in a link; the depth is limited, since links may nest arbitrarily. */
function findLinkImage(link: HtmlElement): HtmlElement | null {
  let left = MAX_LINK_NODES
  const first = ({ children }: HtmlElement): HtmlElement | null => {
    for (const child of children) {
      left -= 1
      if (left < 0) return null
      if (typeof child === 'string') continue
      const found = child.name === 'img' ? child : first(child)
      if (found !== null) return found
    }
    return null
  }
  return first(link)
}
