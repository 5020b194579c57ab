import { findPageBaseUrl } from './html/page-urls.ts'
import { parseMoneyAmounts } from './content/parse-money-amounts-in-page-text.ts'
import { detectPageAnomalies } from './anomalies/detect-page-anomalies.ts'
import { decodePageBytes } from './html/decode-page.ts'
import { parsePageHeadings, parsePageLinks, parsePageTitle } from './content/headings-and-links.ts'
import { summarizeForms } from './content/form-summaries.ts'
import { findHiddenElements } from './html/hidden-elements.ts'
import { detectContentKind } from './html/detect-html-text-or-binary.ts'
import type { PageContent, ReceivedWebPage } from './page-parser-port.ts'
import { parseJsonLdPrices, parsePagePrices } from './content/page-prices.ts'
import {
  MAX_PAGE_TEXT_CHARS,
  renderPageText,
  stripInvisibleCharacters,
  trimTextLines,
} from './html/page-text-renderer.ts'
import { parseHtmlTree, type HtmlElement, type HtmlTree } from './html/html-parser.ts'

/**
 * Parses a text page of any kind. Takes time that grows with the page, so `createPageParserPool` runs it in a
 * process.
 */
export function parsePageContent({ body, contentType, url }: ReceivedWebPage): PageContent {
  const text = decodePageBytes(body, contentType)
  const plain = typeof body !== 'string' && detectContentKind(contentType, body) === 'text'
  return toStorable(plain ? parsePlainTextContent(text, url) : parseHtmlContent(text, url))
}

/** Makes all strings storable in Postgres: without NUL and lone surrogates. */
function toStorable<T>(value: T): T {
  if (typeof value === 'string')
    return value.replaceAll('\0', '').replace(/\p{Surrogate}/gu, '\ufffd') as T
  if (Array.isArray(value)) return value.map(toStorable) as T
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [name, toStorable(one)]),
  ) as T
}

function parseHtmlContent(html: string, url: string): PageContent {
  const tree = parseHtmlTree(html)
  const { root } = tree
  const [page, base] = [new URL(url), findPageBaseUrl(root, url)]
  const hidden = findHiddenElements(root)
  const text = renderPageText(root, hidden)
  const headings = parsePageHeadings(root, hidden)
  const links = parsePageLinks(root, hidden, base)
  const forms = summarizeForms(root, page, base)
  const [declaredPrices, shownAmounts] = [parseJsonLdPrices(root), parseMoneyAmounts(text)]
  const title = parsePageTitle(root, headings.items)
  const outline = { title, headings: headings.items, links: links.items, forms: forms.items }
  return {
    title: stripInvisibleCharacters(title),
    headings: headings.items.map((one) => ({ ...one, text: stripInvisibleCharacters(one.text) })),
    text: stripInvisibleCharacters(text.slice(0, MAX_PAGE_TEXT_CHARS)),
    links: links.items.map((one) => ({ ...one, text: stripInvisibleCharacters(one.text) })),
    prices: parsePagePrices(root, hidden, declaredPrices, shownAmounts),
    forms: forms.items,
    anomalies: detectPageAnomalies({
      tree,
      hidden,
      text,
      outline,
      page,
      base,
      declaredPrices,
      shownAmounts,
    }),
    truncated:
      tree.truncated ||
      root.budget.left <= 0 ||
      headings.isTruncated ||
      links.isTruncated ||
      forms.isTruncated ||
      text.length > MAX_PAGE_TEXT_CHARS,
  }
}

const EMPTY_TREE: HtmlTree = {
  root: { name: '', attributes: new Map(), parent: null, children: [], budget: { left: 0 } },
  comments: [],
  truncated: false,
}

/** Content other than HTML has lines only. */
function parsePlainTextContent(all: string, url: string): PageContent {
  const text = trimTextLines(all)
  const shownAmounts = parseMoneyAmounts(text)
  const [hidden, page] = [new Set<HtmlElement>(), new URL(url)]
  const outline = { title: '', headings: [], links: [], forms: [] }
  const [tree, base, declaredPrices] = [EMPTY_TREE, page, []]
  return {
    ...outline,
    text: stripInvisibleCharacters(text.slice(0, MAX_PAGE_TEXT_CHARS)),
    prices: parsePagePrices(tree.root, hidden, declaredPrices, shownAmounts),
    anomalies: detectPageAnomalies({
      tree,
      hidden,
      text,
      outline,
      page,
      base,
      declaredPrices,
      shownAmounts,
    }),
    truncated: text.length > MAX_PAGE_TEXT_CHARS,
  }
}
