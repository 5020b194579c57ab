import { absolute } from './address.ts'
import { shownElements, type Hidden } from './hidden.ts'
import type { Heading, PageLink } from './port.ts'
import { elementsOf, lineOf, type PageElement } from './tree.ts'

const MOST_HEADINGS = 200
const MOST_LINKS = 500
const LONGEST_LINE = 300
const LONGEST_URL = 2_048
const MOST_IN_LINK = 200

/** A list, and whether the page has more than it holds. */
export interface Listed<T> {
  readonly list: readonly T[]
  readonly more: boolean
}

/** The first `<title>`, else what the page is called where it is shared, else its first heading. */
export function titleOf(root: PageElement, headings: readonly Heading[]): string {
  let shared = ''
  for (const element of elementsOf(root)) {
    const { name, attributes } = element
    if (name === 'title') {
      const title = lineOf(element, LONGEST_LINE)
      if (title !== '') return title
    }
    if (name === 'meta' && attributes.get('property') === 'og:title' && shared === '')
      shared = cut(attributes.get('content') ?? '')
    if (name === 'p') break
  }
  return shared === '' ? (headings[0]?.text ?? '') : shared
}

const cut = (text: string): string => text.replace(/\s+/g, ' ').trim().slice(0, LONGEST_LINE)

export function headingsOf(root: PageElement, hidden: Hidden): Listed<Heading> {
  const list: Heading[] = []
  for (const element of shownElements(root, hidden)) {
    if (!/^h[1-6]$/.test(element.name)) continue
    const text = lineOf(element, LONGEST_LINE)
    if (text === '') continue
    if (list.length === MOST_HEADINGS) return { list, more: true }
    list.push({ level: Number(element.name[1]), text })
  }
  return { list, more: false }
}

const FOLLOWED = new Set(['http:', 'https:', 'mailto:', 'tel:'])

/** What a page leads to, each once; places on the page itself are none. */
export function linksOf(root: PageElement, hidden: Hidden, base: URL): Listed<PageLink> {
  const links = new Map<string, PageLink>()
  for (const element of shownElements(root, hidden)) {
    if (element.name !== 'a' && element.name !== 'area') continue
    const href = element.attributes.get('href')?.trim() ?? ''
    if (href === '' || href.startsWith('#')) continue
    const url = absolute(href, base)
    if (url === null || !FOLLOWED.has(url.protocol) || url.href.length > LONGEST_URL) continue
    const known = links.get(url.href)
    if (known !== undefined && known.text !== '') continue
    if (known === undefined && links.size === MOST_LINKS)
      return { list: [...links.values()], more: true }
    links.set(url.href, { text: nameOf(element), url: url.href })
  }
  return { list: [...links.values()], more: false }
}

/** What a link says: its text, else what it is called, else its picture. */
function nameOf(element: PageElement): string {
  const text = lineOf(element, LONGEST_LINE)
  if (text !== '') return text
  const called = element.attributes.get('aria-label') ?? element.attributes.get('title')
  if (called !== undefined) return cut(called)
  return cut(pictureIn(element)?.attributes.get('alt') ?? '')
}

/** The first picture in a link, as far as one looks: links may hold each other, and everything. */
function pictureIn(link: PageElement): PageElement | null {
  let left = MOST_IN_LINK
  const first = ({ children }: PageElement): PageElement | null => {
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
