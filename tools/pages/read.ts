import { baseOf } from './address.ts'
import { amountsIn } from './amounts.ts'
import { anomaliesOf } from './anomalies.ts'
import { decodePage } from './charset.ts'
import { headingsOf, linksOf, titleOf } from './contents.ts'
import { listForms } from './form-list.ts'
import { hiddenOf } from './hidden.ts'
import { kindOf } from './kind.ts'
import type { PageReading, PageSource } from './port.ts'
import { jsonPrices, pricesOf } from './prices.ts'
import { MOST_TEXT, sayPage, seeable, tidy } from './say.ts'
import { parsePage, type PageElement, type PageTree } from './tree.ts'

/** Reads a page, of any kind that is text. Takes time that grows with the page: see `createPages`. */
export function readPage({ body, contentType, url }: PageSource): PageReading {
  const text = decodePage(body, contentType)
  const plain = typeof body !== 'string' && kindOf(contentType, body) === 'text'
  return storable(plain ? readText(text, url) : readHtml(text, url))
}

/** All texts in it as a database can keep them: without NUL, and no letter halved by a cut. */
function storable<T>(value: T): T {
  if (typeof value === 'string')
    return value.replaceAll('\0', '').replace(/\p{Surrogate}/gu, '\ufffd') as T
  if (Array.isArray(value)) return value.map(storable) as T
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, storable(one)])) as T
}

function readHtml(html: string, url: string): PageReading {
  const tree = parsePage(html)
  const { root } = tree
  const [page, base] = [new URL(url), baseOf(root, url)]
  const hidden = hiddenOf(root)
  const text = sayPage(root, hidden)
  const headings = headingsOf(root, hidden)
  const links = linksOf(root, hidden, base)
  const forms = listForms(root, page, base)
  const [declared, shown] = [jsonPrices(root), amountsIn(text)]
  const title = titleOf(root, headings.list)
  const told = { title, headings: headings.list, links: links.list, forms: forms.list }
  return {
    title: seeable(title),
    headings: headings.list.map((one) => ({ ...one, text: seeable(one.text) })),
    text: seeable(text.slice(0, MOST_TEXT)),
    links: links.list.map((one) => ({ ...one, text: seeable(one.text) })),
    prices: pricesOf(root, hidden, declared, shown),
    forms: forms.list,
    anomalies: anomaliesOf({ tree, hidden, text, told, page, base, declared, shown }),
    truncated:
      tree.truncated || headings.more || links.more || forms.more || text.length > MOST_TEXT,
  }
}

const NOTHING: PageTree = {
  root: { name: '', attributes: new Map(), parent: null, children: [] },
  comments: [],
  truncated: false,
}

/** What is no HTML has lines and nothing else. */
function readText(all: string, url: string): PageReading {
  const text = tidy(all)
  const shown = amountsIn(text)
  const [hidden, page] = [new Set<PageElement>(), new URL(url)]
  const told = { title: '', headings: [], links: [], forms: [] }
  const [tree, base, declared] = [NOTHING, page, []]
  return {
    ...told,
    text: seeable(text.slice(0, MOST_TEXT)),
    prices: pricesOf(tree.root, hidden, declared, shown),
    anomalies: anomaliesOf({ tree, hidden, text, told, page, base, declared, shown }),
    truncated: text.length > MOST_TEXT,
  }
}
