import { UNRENDERED_TEXT_ELEMENTS, type HiddenElements } from './hidden-elements.ts'
import type { HtmlElement } from './html-parser.ts'

/** Renders the visible text of a page. */

export const MAX_PAGE_TEXT_CHARS = 100_000

const named = (names: string): ReadonlySet<string> => new Set(names.split(' '))
const BLOCK_ELEMENTS = named(
  'address article aside blockquote body button caption center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr label legend li main menu ol option p pre section summary table tbody tfoot thead tr ul video audio',
)
/** Menus and field values are reported elsewhere. */
const SKIPPED_ELEMENTS = named('nav select textarea template noscript')

const LINE_ENDS = /[\n\r\u2028\u2029]+/g

/** Renders all visible text, with a line per block. */
export function renderPageText(root: HtmlElement, hidden: HiddenElements): string {
  const pieces: string[] = []
  const say = (element: HtmlElement, kept: boolean): void => {
    for (const child of element.children) {
      if (typeof child === 'string') pieces.push(kept ? child : child.replace(LINE_ENDS, ' '))
      else if (child.name === 'br') pieces.push('\n')
      else if (
        !UNRENDERED_TEXT_ELEMENTS.has(child.name) &&
        !SKIPPED_ELEMENTS.has(child.name) &&
        !hidden.has(child)
      ) {
        const block = BLOCK_ELEMENTS.has(child.name)
        const cell = child.name === 'td' || child.name === 'th'
        if (block) pieces.push('\n')
        say(child, kept || child.name === 'pre')
        if (block || cell) pieces.push(block ? '\n' : ' ')
      }
    }
  }
  say(root, false)
  return trimTextLines(pieces.join(''))
}

/** Default-ignorable characters, but for joiners and variation selectors outside of Latin words. */
const INVISIBLE_TEXT_CHARACTERS =
  /(?!\p{Join_Control}|\p{Variation_Selector})\p{Default_Ignorable_Code_Point}|(?<=[A-Za-z0-9])(?:\p{Join_Control}|\p{Variation_Selector})+(?=[A-Za-z0-9])/gu

/** Removes invisible characters, except those that join letters and emoji. */
export const stripInvisibleCharacters = (text: string): string =>
  text.replace(INVISIBLE_TEXT_CHARACTERS, '')

/** Trims lines and removes empty ones. */
export const trimTextLines = (text: string): string =>
  text
    .split(/[\n\r\u2028\u2029]/)
    .map((line) => line.replace(/[^\S\n]+/g, ' ').trim())
    .filter((line) => line !== '')
    .join('\n')
