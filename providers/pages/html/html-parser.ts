import { decodeHtmlEntities } from './html-entities.ts'
import { parseTagAttributes, rawTextEndIndex, nextMarkupIndex } from './html-tokenizer.ts'

/** An element with its tag name in lower case. */
export interface HtmlElement {
  readonly name: string
  /** Attributes by lower-case name, decoded; the first of duplicates counts. */
  readonly attributes: ReadonlyMap<string, string>
  readonly parent: HtmlElement | null
  readonly children: readonly (HtmlElement | string)[]
  /** Shared by all elements of a page. */
  readonly budget: TextBudget
}

/**
 * Characters and nodes that `elementTextLine` may still read of a page: texts of nested elements would be read once a
 * level. A page for which it is used up is truncated (decision 480).
 */
export interface TextBudget {
  left: number
}

export interface HtmlTree {
  /** The nameless root that contains the page. */
  readonly root: HtmlElement
  readonly comments: readonly string[]
  /** The page exceeds the limits of elements or depth. */
  readonly truncated: boolean
}

interface MutablePageElement extends HtmlElement {
  readonly children: (HtmlElement | string)[]
}

const MIN_TEXT_BUDGET = 2 * 1024 * 1024
const TEXT_BUDGET_PER_CHAR = 1
/** As in browsers, deeper elements become children at the limit. */
const MAX_TREE_DEPTH = 512
const MAX_TREE_ELEMENTS = 150_000
const MAX_TREE_COMMENTS = 10_000

const named = (names: string): ReadonlySet<string> => new Set(names.split(' '))
const VOID_ELEMENTS = named(
  'area base br col embed hr img input link meta source track wbr param frame',
)
/** Raw text up to the end tag; character references are decoded in the last two. */
const RAW_TEXT_ELEMENTS = named('script style xmp iframe noembed noframes title textarea')
const RAW_WITH_REFERENCES = named('title textarea')
/** Elements that unrelated end tags do not close. */
const SPECIAL_ELEMENTS = named(
  'address article aside blockquote body button caption center dd details dialog dir div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 head header hgroup html iframe li main marquee menu nav noscript object ol p pre section select summary table tbody td template tfoot th thead tr ul',
)
/** Scopes that outer end tags do not close; end tags of tables close all but tables. */
const SCOPE_ELEMENTS = named('html table td th caption template object marquee')
const TABLES = named('html table template')
const OF_TABLES = named('table caption thead tbody tfoot tr td th')
const P_ENDERS = named(
  'address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre section summary table ul li dd dt',
)
const CELL_ENDS = named('p td th')
/** Elements that a start tag closes implicitly when they are open directly above. */
const IMPLIED_END_TAGS: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ['li', named('p li')],
  ['dt', named('p dt dd')],
  ['dd', named('p dt dd')],
  ['td', CELL_ENDS],
  ['th', CELL_ENDS],
  ['tr', named('p td th tr')],
  ['thead', named('p td th tr thead tbody tfoot')],
  ['tbody', named('p td th tr thead tbody tfoot')],
  ['tfoot', named('p td th tr thead tbody tfoot')],
  ['option', named('option')],
  ['optgroup', named('option optgroup')],
  ['body', named('head')],
])
const ONLY_P = named('p')
const OPTIONS = named('option optgroup')

/**
 * Parses any HTML, however broken, into a tree in one pass of linear time. Simpler than a browser for invalid
 * pages: nothing is moved.
 */
export function parseHtmlTree(html: string): HtmlTree {
  const tree = new HtmlTreeBuilder(MIN_TEXT_BUDGET + TEXT_BUDGET_PER_CHAR * html.length)
  for (let at = 0; at < html.length && !tree.full;) {
    const begin = nextMarkupIndex(html, at)
    tree.text(decodeHtmlEntities(html.slice(at, begin)))
    if (begin === html.length) break
    at = tree.markup(html, begin)
  }
  pageElementsCache.set(tree.root, tree.elements)
  return { root: tree.root, comments: tree.comments, truncated: tree.full || tree.tooDeep }
}

/** Builds the tree and tracks the open elements. */
class HtmlTreeBuilder {
  readonly root: MutablePageElement
  readonly comments: string[] = []
  /** In document order. */
  readonly elements: HtmlElement[] = []
  full = false
  tooDeep = false
  readonly #open: MutablePageElement[]
  /** Depths of the open elements by name, and of scopes. */
  readonly #places = new Map<string, number[]>()
  readonly #barriers = [SPECIAL_ELEMENTS, SCOPE_ELEMENTS, TABLES].map((names) => ({
    names,
    places: [0],
  }))
  /** Number of elements beyond the depth limit. */
  #beyond = 0

  constructor(left: number) {
    const [attributes, budget] = [new Map<string, string>(), { left }]
    this.root = { name: '', attributes, parent: null, children: [], budget }
    this.#open = [this.root]
  }

  /** Parses the markup at a position and returns its end. */
  markup(html: string, begin: number): number {
    if (html.startsWith('<!--', begin)) return this.#comment(html, begin)
    const mark = html.charCodeAt(begin + 1)
    const closes = mark === 0x2f
    const from = begin + (closes ? 2 : 1)
    const name = tagNameAt(html, from)
    if (name === '') {
      const end = html.indexOf('>', begin)
      if (mark !== 0x21 || !/^<!doctype/i.test(html.slice(begin, begin + 9)))
        this.#remark(html.slice(begin + 2, end < 0 ? undefined : end))
      return end < 0 ? html.length : end + 1
    }
    const tag = parseTagAttributes(html, from + name.length)
    // An unterminated tag is no tag, and nothing follows it.
    if (tag === null) return html.length
    const lower = name.toLowerCase()
    if (closes) this.#end(lower)
    else {
      this.#begin(lower, tag.attributes, tag.selfClosing)
      if (RAW_TEXT_ELEMENTS.has(lower)) return this.#raw(html, tag.next, lower)
    }
    return tag.next
  }

  text(text: string): void {
    if (text !== '') this.#top().children.push(text)
  }

  #comment(html: string, begin: number): number {
    const from = begin + 4
    if (html[from] === '>') return from + 1
    COMMENT_END.lastIndex = from
    const end = COMMENT_END.exec(html)
    this.#remark(html.slice(from, end?.index))
    return end === null ? html.length : COMMENT_END.lastIndex
  }

  #remark(text: string): void {
    if (this.comments.length < MAX_TREE_COMMENTS) this.comments.push(text)
  }

  #raw(html: string, from: number, name: string): number {
    const stop = rawTextEndIndex(html, from, name)
    const text = html.slice(from, stop)
    this.text(RAW_WITH_REFERENCES.has(name) ? decodeHtmlEntities(text) : text)
    return stop
  }

  #begin(name: string, attributes: ReadonlyMap<string, string>, selfClosing: boolean): void {
    if (this.elements.length === MAX_TREE_ELEMENTS) {
      this.full = true
      return
    }
    // Nested forms are ignored.
    if (name === 'form' && this.#has('form')) return
    if (name === 'select' && this.#has('select')) return this.#end('select')
    this.#endImplied(name)
    if (OPTIONS.has(name)) this.#endOption()
    const parent = this.#top()
    const { budget } = parent
    const element: MutablePageElement = { name, attributes, parent, children: [], budget }
    parent.children.push(element)
    this.elements.push(element)
    if (VOID_ELEMENTS.has(name) || (selfClosing && this.#inForeign())) return
    if (this.#open.length >= MAX_TREE_DEPTH) {
      this.tooDeep = true
      this.#beyond += 1
      return
    }
    this.#push(element)
  }

  #endImplied(name: string): void {
    if (this.#beyond > 0) return
    if (name === 'a') this.#end('a')
    const ends = IMPLIED_END_TAGS.get(name) ?? (P_ENDERS.has(name) ? ONLY_P : null)
    while (ends?.has(this.#top().name) === true) {
      const ended = this.#pop()
      // An end tag closes one row; rows of outer tables stay open.
      if (ended === name) break
    }
  }

  /** Closes an open option: options never nest. */
  #endOption(): void {
    const place = this.#places.get('option')?.at(-1) ?? 0
    const list = this.#places.get('select')?.at(-1) ?? Infinity
    if (this.#beyond > 0 || place < list) return
    while (this.#open.length > place) this.#pop()
  }

  #end(name: string): void {
    if (this.#beyond > 0) {
      if (!VOID_ELEMENTS.has(name)) this.#beyond -= 1
      return
    }
    if (name === 'br') this.#begin('br', new Map(), false)
    const place = this.#places.get(name)?.at(-1)
    const barriers = OF_TABLES.has(name)
      ? TABLES
      : SPECIAL_ELEMENTS.has(name)
        ? SCOPE_ELEMENTS
        : SPECIAL_ELEMENTS
    const barrier = this.#barriers.find(({ names }) => names === barriers)?.places.at(-1) ?? 0
    if (place === undefined || place < barrier) return
    while (this.#open.length > place) this.#pop()
  }

  #push(element: MutablePageElement): void {
    const place = this.#open.push(element) - 1
    const places = this.#places.get(element.name)
    if (places === undefined) this.#places.set(element.name, [place])
    else places.push(place)
    for (const { names, places: of } of this.#barriers) if (names.has(element.name)) of.push(place)
  }

  #pop(): string {
    const name = this.#open.pop()?.name ?? ''
    this.#places.get(name)?.pop()
    for (const { names, places } of this.#barriers) if (names.has(name)) places.pop()
    return name
  }

  #top(): MutablePageElement {
    return this.#open.at(-1) ?? this.root
  }

  #has(name: string): boolean {
    return (this.#places.get(name)?.length ?? 0) > 0
  }

  #inForeign(): boolean {
    return FOREIGN.some((name) => this.#has(name))
  }
}

const FOREIGN = ['svg', 'math']
const COMMENT_END = /--!?>/g
const NAME = /[a-z][^\s/>]{0,63}/iy

function tagNameAt(html: string, at: number): string {
  NAME.lastIndex = at
  return NAME.exec(html)?.[0] ?? ''
}

/** Caches the elements of whole pages, which are read repeatedly. */
const pageElementsCache = new WeakMap<HtmlElement, readonly HtmlElement[]>()

/** Returns all descendants in document order. */
export function descendantElements(element: HtmlElement): readonly HtmlElement[] {
  const known = pageElementsCache.get(element)
  if (known !== undefined) return known
  const found: HtmlElement[] = []
  const collect = ({ children }: HtmlElement): void => {
    for (const child of children) {
      if (typeof child === 'string') continue
      found.push(child)
      collect(child)
    }
  }
  collect(element)
  return found
}

/** Returns the direct text of an element, which is all of it in raw text elements. */
export const directElementText = ({ children }: HtmlElement): string =>
  children.filter((child) => typeof child === 'string').join('')

/**
 * Returns the text of an element on one line, cut at `maxChars`; scripts and styles are skipped. Empty once the budget
 * of the page is used up.
 */
export function elementTextLine(
  element: HtmlElement,
  maxChars: number,
  budget: TextBudget = element.budget,
): string {
  const pieces: string[] = []
  const most = Math.min(4 * maxChars, budget.left)
  if (most <= 0) return ''
  let left = most
  const collect = ({ children }: HtmlElement) => {
    for (const child of children) {
      if (left <= 0) return
      left -= 1
      if (typeof child === 'string') {
        pieces.push(child.slice(0, left))
        left -= child.length
      } else if (!UNRENDERED_ELEMENTS.has(child.name)) {
        const breaks = SPECIAL_ELEMENTS.has(child.name) || child.name === 'br'
        if (breaks && pieces.at(-1) !== ' ') pieces.push(' ')
        collect(child)
      }
    }
  }
  collect(element)
  budget.left -= most - Math.max(0, left)
  const line = pieces.join('').replace(/\s+/g, ' ').trim()
  return line.length <= maxChars ? line : `${line.slice(0, maxChars - 1).trimEnd()}…`
}

const UNRENDERED_ELEMENTS = named('script style template noscript iframe option')
