import { decodeHtmlEntities } from './html-entities.ts'

/** Tokenizes HTML tags. */

const NO_ATTRIBUTES: ReadonlyMap<string, string> = new Map()
/** Further attributes of an element are ignored. */
const MAX_ELEMENT_ATTRIBUTES = 256

const MARKUP = /<[a-z/!?]/gi

/** Returns the index of the next `<` that starts markup, or the end. */
export function nextMarkupIndex(html: string, from: number): number {
  MARKUP.lastIndex = from
  return MARKUP.exec(html)?.index ?? html.length
}

/** Returns the end of a raw text element: before its end tag, or the end. */
export function rawTextEndIndex(html: string, from: number, name: string): number {
  const end = new RegExp(`</${name}(?=[\\s/>])`, 'gi')
  end.lastIndex = from
  return end.exec(html)?.index ?? html.length
}

export interface TagAttributes {
  readonly attributes: ReadonlyMap<string, string>
  readonly selfClosing: boolean
  /** The index after `>`. */
  readonly next: number
}

/** Parses the attributes of a tag as browsers do; returns null for an unterminated tag. */
export function parseTagAttributes(html: string, from: number): TagAttributes | null {
  let attributes: Map<string, string> | null = null
  let at = from
  for (;;) {
    at = skipPattern(SPACE_OR_SLASH, html, at)
    if (at >= html.length) return null
    if (html[at] === '>') {
      return {
        attributes: attributes ?? NO_ATTRIBUTES,
        selfClosing: html[at - 1] === '/',
        next: at + 1,
      }
    }
    const nameEnd = skipPattern(ATTRIBUTE_NAME, html, at)
    const name = html.slice(at, nameEnd)
    const value = parseAttributeValue(html, skipPattern(SPACE, html, nameEnd))
    if (value === null) return null
    at = value.next
    attributes ??= new Map()
    const key = name.toLowerCase()
    if (attributes.size < MAX_ELEMENT_ATTRIBUTES && !attributes.has(key))
      attributes.set(key, decodeHtmlEntities(value.text))
  }
}

const SPACE = /\s*/y
const SPACE_OR_SLASH = /[\s/]*/y
/** A name may start with `=`. */
const ATTRIBUTE_NAME = /[^\s/>][^\s/>=]*/y
const BARE_VALUE = /[^\s>]*/y

function skipPattern(what: RegExp, html: string, from: number): number {
  what.lastIndex = from
  what.test(html)
  return Math.max(from, what.lastIndex)
}

function parseAttributeValue(html: string, equals: number): { text: string; next: number } | null {
  if (html[equals] !== '=') return { text: '', next: equals }
  const begin = skipPattern(SPACE, html, equals + 1)
  const quote = html[begin]
  if (quote !== '"' && quote !== "'") {
    const next = skipPattern(BARE_VALUE, html, begin)
    return { text: html.slice(begin, next), next }
  }
  const end = html.indexOf(quote, begin + 1)
  return end < 0 ? null : { text: html.slice(begin + 1, end), next: end + 1 }
}
