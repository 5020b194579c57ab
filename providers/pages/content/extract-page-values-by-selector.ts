import { resolvePageHref } from '../html/page-urls.ts'
import { descendantElements, elementTextLine, type HtmlElement } from '../html/html-parser.ts'

/** Extracts values from a page by name or selector. */

const MAX_EXTRACTED_VALUES = 50
const MAX_EXTRACTED_VALUE_CHARS = 500
/** What is read to find labels, of all elements and their ancestors. */
const MAX_LABEL_READS = 8 * 1024 * 1024
const NAMING_ATTRIBUTES = [
  'id',
  'name',
  'itemprop',
  'data-testid',
  'data-test',
  'aria-label',
  'property',
] as const
const SELECTABLE_TAGS = new Set(
  'h1 h2 h3 h4 h5 h6 p li a td th tr dt dd img table ul ol code pre span'.split(' '),
)
const SELECTOR =
  /^([a-z][\w-]{0,30})?((?:[#.][\w-]{1,100}|\[[\w-]{1,50}(?:=[^\]]{0,100})?\]){1,10})$/i

/**
 * Returns values by a simple selector (`#id`, `.class`, `[name=value]`, a tag), by id, name or other
 * attributes, and values beside a label (a term and its definition, a header and its cell, `Total: 5`).
 */
export function extractValuesBySelectorOrLabel(
  root: HtmlElement,
  base: URL,
  what: string,
): string[] {
  const wanted = what.trim()
  const matches = parseSelector(wanted)
  const elements = [...descendantElements(root)]
  const found =
    matches === null
      ? [
          () => findNamedElements(elements, normalizeWords(wanted)),
          () => findAdjacentValues(elements, normalizeWords(wanted)),
        ]
      : [() => elements.filter(matches)]
  for (const look of found) {
    const values = look().map((one) => (typeof one === 'string' ? one : elementValue(one, base)))
    const said = [...new Set(values.filter((value) => value !== ''))].slice(0, MAX_EXTRACTED_VALUES)
    if (said.length > 0) return said
  }
  return []
}

const normalizeWords = (text: string): string =>
  text
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, ' ')
    .trim()

/** Returns the value of an element: its text, or the value it holds. */
function elementValue({ name, attributes, ...element }: HtmlElement, base: URL): string {
  const of = (attribute: string) => attributes.get(attribute) ?? ''
  if (name === 'meta') return of('content').slice(0, MAX_EXTRACTED_VALUE_CHARS)
  if (name === 'input') return of('value').slice(0, MAX_EXTRACTED_VALUE_CHARS)
  if (name === 'img')
    return (resolvePageHref(of('src'), base)?.href ?? '').slice(0, MAX_EXTRACTED_VALUE_CHARS)
  return elementTextLine({ name, attributes, ...element }, MAX_EXTRACTED_VALUE_CHARS)
}

/** Returns null for a plain name. */
function parseSelector(text: string): ((element: HtmlElement) => boolean) | null {
  if (SELECTABLE_TAGS.has(text.toLowerCase())) return ({ name }) => name === text.toLowerCase()
  const [, tag, rest = ''] = SELECTOR.exec(text) ?? []
  if (rest === '') return null
  const tests = [...rest.matchAll(/#([\w-]+)|\.([\w-]+)|\[([\w-]+)(?:=([^\]]*))?\]/g)].map(
    ([, id, css, name = '', value]) => {
      if (id !== undefined) return ({ attributes }: HtmlElement) => attributes.get('id') === id
      if (css !== undefined) return (element: HtmlElement) => classesOf(element).includes(css)
      const plain = value?.replace(/^["']|["']$/g, '')
      return ({ attributes }: HtmlElement) => {
        const given = attributes.get(name.toLowerCase())
        return given !== undefined && (plain === undefined || given === plain)
      }
    },
  )
  return (element) =>
    (tag === undefined || element.name === tag.toLowerCase()) &&
    tests.every((test) => test(element))
}

const classesOf = ({ attributes }: HtmlElement): string[] =>
  (attributes.get('class') ?? '').split(/\s+/)

function findNamedElements(elements: readonly HtmlElement[], wanted: string): HtmlElement[] {
  if (wanted === '') return []
  const isCalled = (text: string) =>
    text.length <= MAX_EXTRACTED_VALUE_CHARS && normalizeWords(text) === wanted
  return elements.filter((element) => {
    if (element.name === 'label' || element.name === 'form') return false
    const names = NAMING_ATTRIBUTES.map((name) => element.attributes.get(name) ?? '')
    return [...names, ...classesOf(element).slice(0, 20)].some(isCalled)
  })
}

/** Returns what follows an element with exactly this text, or this text and a colon. */
function findAdjacentValues(
  elements: readonly HtmlElement[],
  wanted: string,
): (HtmlElement | string)[] {
  if (wanted === '') return []
  const found: (HtmlElement | string)[] = []
  const budget = { left: MAX_LABEL_READS }
  for (const element of elements) {
    if (found.length >= MAX_EXTRACTED_VALUES) break
    // Only short elements can be labels, so large ones are skipped.
    if (element.children.length === 0 || element.children.length > 20) continue
    const said = elementTextLine(element, MAX_EXTRACTED_VALUE_CHARS, budget)
    if (normalizeWords(said) === wanted) {
      const next = nextSiblingContent(element)
      if (next !== null) found.push(next)
      continue
    }
    const isLeaf = element.children.every((child) => typeof child === 'string')
    const colon = said.indexOf(':')
    if (
      (isLeaf || element.children.length <= 3) &&
      colon > 0 &&
      normalizeWords(said.slice(0, colon)) === wanted
    )
      found.push(said.slice(colon + 1).trim())
  }
  return found
}

function nextSiblingContent(element: HtmlElement): HtmlElement | string | null {
  const siblings = element.parent?.children ?? []
  for (let at = siblings.indexOf(element) + 1; at > 0 && at < siblings.length; at += 1) {
    const sibling = siblings[at]
    if (typeof sibling === 'object') return sibling
    const text = sibling?.replace(/\s+/g, ' ').trim() ?? ''
    if (text !== '' && text !== ':')
      return text.replace(/^:\s*/, '').slice(0, MAX_EXTRACTED_VALUE_CHARS)
  }
  return null
}
