import type { RenderedPage } from '../../../providers/browser/port.ts'
import type { PageReader, PageContent, PageSource } from '../../../providers/pages/port.ts'
import { EXTRACTABLE_PARTS } from './page-steps.ts'

const MAX_VALUES = 50
const MAX_TEXT_CHARS = 20_000

/** What a page says under a name: the parts every page has, else whatever it calls so. */
export async function extractPageValues(
  page: RenderedPage,
  what: string,
  pages: Pick<PageReader, 'read' | 'extract'>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const source = toPageSource(page)
  const known = EXTRACTABLE_PARTS.find(
    (name) => name === what.toLowerCase() || name === `${what.toLowerCase()}s`,
  )
  if (known === undefined) return pages.extract(source, what, signal)
  // A page may have an element of this name that says more than we would.
  const own = known === 'title' ? [] : await pages.extract(source, what, signal)
  return own.length > 0 ? own : valuesOf(known, await pages.read(source, signal))
}

/** By its media type; what has none is taken for a page. */
export const isHtmlContentType = (contentType: string | null): boolean =>
  contentType === null ||
  /^\s*(text\/html|(text|application)\/([\w.-]+\+)?xml)\s*(;|$)/i.test(contentType)

/** Whatever it says to be it is taken for a page; what it says of its charset stays. */
export const toPageSource = ({ html, contentType, url }: RenderedPage): PageSource => ({
  body: html,
  contentType: (contentType ?? '').replace(/^[^;]*/, 'text/html'),
  url,
})

function valuesOf(
  known: (typeof EXTRACTABLE_PARTS)[number],
  reading: PageContent,
): readonly string[] {
  switch (known) {
    case 'title':
      return reading.title === '' ? [] : [reading.title]
    case 'headings':
      return reading.headings.slice(0, MAX_VALUES).map(({ text }) => text)
    case 'links':
      return reading.links.slice(0, MAX_VALUES).map(({ url }) => url)
    case 'prices':
      return reading.prices
        .slice(0, MAX_VALUES)
        .map(({ amount, currency }) => (currency === null ? `${amount}` : `${amount} ${currency}`))
    case 'forms':
      return reading.forms.slice(0, MAX_VALUES).map(({ method, action }) => `${method} ${action}`)
    case 'text':
      return reading.text === '' ? [] : [reading.text.slice(0, MAX_TEXT_CHARS)]
  }
}
