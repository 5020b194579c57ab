import { withoutInvisibles } from '../../core/comparable-text.ts'
import { decodeCommonEntities } from '../text/html-snippet-to-text.ts'

/** The title of a page, and its text with a line per block. */
export interface PageText {
  readonly title: string
  readonly text: string
}

/** A longer page is cut here. */
const MAX_SCANNED_HTML_CHARS = 400_000
const MAX_EXTRACTED_TEXT_CHARS = 60_000
/** Depth up to which the element of an end tag is searched. */
const MAX_END_TAG_DEPTH = 256
const MAX_TAG_NAME_CHARS = 32

const named = (names: string): ReadonlySet<string> => new Set(names.split(' '))
/** Raw text up to the end tag. */
const RAW = named('script style title textarea iframe noscript template')
const UNREAD = named('nav footer aside form svg object button select head')
const VOID = named('area base br col embed hr img input link meta source track wbr')
/** Elements that end where the next one starts. */
const ENDED_BY_NEXT = named('p li dt dd tr td th option')
const BLOCKS = named(
  'address article blockquote body br dd div dl dt figcaption h1 h2 h3 h4 h5 h6 header hr li main ol p pre section table td th tr ul',
)
const HIDDEN =
  /\shidden(?=[\s=/]|$)|aria-hidden\s*=\s*["']?true|display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0(?:\.0{1,9})?\s*(?:[;"']|$)/i

interface OpenElement {
  readonly name: string
  readonly hidden: boolean
}

/**
 * Extracts text from HTML without hidden parts, menus and references; blocks end lines. Works in one pass
 * without a tree, so any page takes linear time.
 */
export function extractPageText(html: string): PageText {
  const page = html.slice(0, MAX_SCANNED_HTML_CHARS)
  const pieces: string[] = []
  const open: OpenElement[] = []
  let [hidden, length, title] = [0, 0, '']
  const say = (text: string) => {
    if (hidden > 0 || text === '') return
    length += text.length
    pieces.push(text)
  }
  const end = (count: number) => {
    for (const one of open.splice(open.length - count)) if (one.hidden) hidden -= 1
  }
  for (let at = 0; at < page.length && length < MAX_EXTRACTED_TEXT_CHARS;) {
    const begin = nextTag(page, at)
    say(page.slice(at, begin).replace(/\s+/g, ' '))
    const tag = tagAt(page, begin)
    if (tag === null) break
    at = tag.next
    const { name, closes } = tag
    if (BLOCKS.has(name)) say('\n')
    if (closes) end(closedElementCount(open, name))
    else if (RAW.has(name)) {
      const stop = endOfRaw(page, at, name)
      if (name === 'title' && title === '') title = page.slice(at, stop)
      at = stop
    } else if (name !== '' && !VOID.has(name)) {
      if (ENDED_BY_NEXT.has(name) && open.at(-1)?.name === name) end(1)
      const unread = UNREAD.has(name) || HIDDEN.test(tag.attributes)
      open.push({ name, hidden: unread })
      if (unread) hidden += 1
    }
  }
  return {
    title: cleanLines(title),
    text: cleanLines(pieces.join('')).slice(0, MAX_EXTRACTED_TEXT_CHARS),
  }
}

/** Returns the index of the next `<` that starts markup. */
function nextTag(page: string, from: number): number {
  const found = /<[A-Za-z/!?]/g
  found.lastIndex = from
  return found.exec(page)?.index ?? page.length
}

/** Parses a tag; without a name for a comment, null for an unterminated one. */
function tagAt(page: string, begin: number) {
  if (page.startsWith('<!--', begin)) {
    const end = page.indexOf('-->', begin + 4)
    return end < 0 ? null : { name: '', closes: false, attributes: '', next: end + 3 }
  }
  const end = endOfTag(page, begin)
  if (end < 0) return null
  const closes = page[begin + 1] === '/'
  const inside = page.slice(begin + (closes ? 2 : 1), end)
  const name =
    /^[A-Za-z][^\s/>]*/.exec(inside.slice(0, MAX_TAG_NAME_CHARS))?.[0].toLowerCase() ?? ''
  return { name, closes, attributes: inside.slice(name.length), next: end + 1 }
}

/** Ignores a `>` in quotes after a `=`. */
function endOfTag(page: string, begin: number): number {
  const stops = /=\s*["']|>/g
  stops.lastIndex = begin
  for (let found = stops.exec(page); found !== null; found = stops.exec(page)) {
    if (found[0] === '>') return found.index
    const close = page.indexOf(found[0].at(-1) ?? '', stops.lastIndex)
    if (close < 0) return -1
    stops.lastIndex = close + 1
  }
  return -1
}

function endOfRaw(page: string, from: number, name: string): number {
  const end = new RegExp(`</${name}`, 'gi')
  end.lastIndex = from
  return end.exec(page)?.index ?? page.length
}

/** Returns how many open elements an end tag closes. */
function closedElementCount(open: readonly OpenElement[], name: string): number {
  const deepest = Math.max(0, open.length - MAX_END_TAG_DEPTH)
  for (let at = open.length - 1; at >= deepest; at -= 1)
    if (open[at]?.name === name) return open.length - at
  return 0
}

/** Trims lines and removes footnote marks, which would look like our citations. */
const cleanLines = (text: string): string =>
  withoutInvisibles(decodeCommonEntities(text))
    .replace(/\[(?:\d{1,3}|[a-z]|citation needed|edit)\]/g, '')
    .split('\n')
    .map((line) => line.replace(/\s+/g, ' ').trim())
    .filter((line) => line !== '')
    .join('\n')
