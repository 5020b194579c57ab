import type { RenderedPage } from '../browser/port.ts'
import type { Pages, PageReading, PageSource } from '../pages/port.ts'
import { KNOWN } from './steps.ts'

const MOST_VALUES = 50
const LONGEST_TEXT = 20_000

/** What a page says under a name: the parts every page has, else whatever it calls so. */
export async function extractFrom(
  page: RenderedPage,
  what: string,
  pages: Pick<Pages, 'read' | 'extract'>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const source = sourceOf(page)
  const known = KNOWN.find(
    (name) => name === what.toLowerCase() || name === `${what.toLowerCase()}s`,
  )
  if (known === undefined) return pages.extract(source, what, signal)
  // A page may have an element of this name that says more than we would.
  const own = known === 'title' ? [] : await pages.extract(source, what, signal)
  return own.length > 0 ? own : valuesOf(known, await pages.read(source, signal))
}

/** By its media type; what has none is taken for a page. */
export const isPage = (contentType: string | null): boolean =>
  contentType === null ||
  /^\s*(text\/html|(text|application)\/([\w.-]+\+)?xml)\s*(;|$)/i.test(contentType)

/** Whatever it says to be it is taken for a page; what it says of its charset stays. */
export const sourceOf = ({ html, contentType, url }: RenderedPage): PageSource => ({
  body: html,
  contentType: (contentType ?? '').replace(/^[^;]*/, 'text/html'),
  url,
})

function valuesOf(known: (typeof KNOWN)[number], reading: PageReading): readonly string[] {
  switch (known) {
    case 'title':
      return reading.title === '' ? [] : [reading.title]
    case 'headings':
      return reading.headings.slice(0, MOST_VALUES).map(({ text }) => text)
    case 'links':
      return reading.links.slice(0, MOST_VALUES).map(({ url }) => url)
    case 'prices':
      return reading.prices
        .slice(0, MOST_VALUES)
        .map(({ amount, currency }) => (currency === null ? `${amount}` : `${amount} ${currency}`))
    case 'forms':
      return reading.forms.slice(0, MOST_VALUES).map(({ method, action }) => `${method} ${action}`)
    case 'text':
      return reading.text === '' ? [] : [reading.text.slice(0, LONGEST_TEXT)]
  }
}
