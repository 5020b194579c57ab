import { decodeEntities } from './entities.ts'

const NONE: ReadonlyMap<string, string> = new Map()
/** More attributes of one element are passed over. */
const MOST_ATTRIBUTES = 256

const MARKUP = /<[a-z/!?]/gi

/** Where the next `<` is that begins markup; the end where there is none. */
export function nextMarkup(html: string, from: number): number {
  MARKUP.lastIndex = from
  return MARKUP.exec(html)?.index ?? html.length
}

/** Where the text of a raw element ends: before its end tag, or nowhere. */
export function endOfRaw(html: string, from: number, name: string): number {
  const end = new RegExp(`</${name}(?=[\\s/>])`, 'gi')
  end.lastIndex = from
  return end.exec(html)?.index ?? html.length
}

export interface TagEnd {
  readonly attributes: ReadonlyMap<string, string>
  readonly selfClosing: boolean
  /** Behind the `>`. */
  readonly next: number
}

/** What a tag says behind its name, read as browsers do; null where it never ends. */
export function attributesAt(html: string, from: number): TagEnd | null {
  let attributes: Map<string, string> | null = null
  let at = from
  for (;;) {
    at = past(SPACE_OR_SLASH, html, at)
    if (at >= html.length) return null
    if (html[at] === '>') {
      return { attributes: attributes ?? NONE, selfClosing: html[at - 1] === '/', next: at + 1 }
    }
    const nameEnd = past(ATTRIBUTE_NAME, html, at)
    const name = html.slice(at, nameEnd)
    const value = valueAt(html, past(SPACE, html, nameEnd))
    if (value === null) return null
    at = value.next
    attributes ??= new Map()
    const key = name.toLowerCase()
    if (attributes.size < MOST_ATTRIBUTES && !attributes.has(key))
      attributes.set(key, decodeEntities(value.text))
  }
}

const SPACE = /\s*/y
const SPACE_OR_SLASH = /[\s/]*/y
/** An `=` may begin it. */
const ATTRIBUTE_NAME = /[^\s/>][^\s/>=]*/y
const BARE_VALUE = /[^\s>]*/y

function past(what: RegExp, html: string, from: number): number {
  what.lastIndex = from
  what.test(html)
  return Math.max(from, what.lastIndex)
}

function valueAt(html: string, equals: number): { text: string; next: number } | null {
  if (html[equals] !== '=') return { text: '', next: equals }
  const begin = past(SPACE, html, equals + 1)
  const quote = html[begin]
  if (quote !== '"' && quote !== "'") {
    const next = past(BARE_VALUE, html, begin)
    return { text: html.slice(begin, next), next }
  }
  const end = html.indexOf(quote, begin + 1)
  return end < 0 ? null : { text: html.slice(begin + 1, end), next: end + 1 }
}
