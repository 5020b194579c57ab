import type { WorkerPlace } from '../../../core/concurrency/worker-pool.ts'
import type { RenderedPage } from '../../../providers/browser/browser-port.ts'
import type {
  PageParser,
  PageContent,
  ReceivedWebPage,
} from '../../../providers/pages/page-parser-port.ts'
import { EXTRACTABLE_PAGE_PARTS } from './page-step-types.ts'

/** Extracts named values from a page. */

const MAX_VALUES = 50
const MAX_TEXT_CHARS = 20_000

/** Returns the values under a name: a part that every page has, else elements with that name. */
export async function extractPageValues(
  page: RenderedPage,
  what: string,
  pages: Pick<PageParser, 'read' | 'extract'>,
  place: WorkerPlace,
): Promise<readonly string[]> {
  const source = renderedPageToHtmlSource(page)
  const known = EXTRACTABLE_PAGE_PARTS.find(
    (name) => name === what.toLowerCase() || name === `${what.toLowerCase()}s`,
  )
  if (known === undefined) return pages.extract(source, what, place)
  // A page may have an element called `title` that says more than the document title.
  const own = known === 'title' ? [] : await pages.extract(source, what, place)
  return own.length > 0 ? own : valuesOf(known, await pages.read(source, place))
}

/** Decides by media type; a missing one counts as HTML. */
export const isHtmlContentType = (contentType: string | null): boolean =>
  contentType === null ||
  /^\s*(text\/html|(text|application)\/([\w.-]+\+)?xml)\s*(;|$)/i.test(contentType)

/** Converts a rendered page to a source: always HTML, with its own charset. */
export const renderedPageToHtmlSource = ({
  html,
  contentType,
  url,
}: RenderedPage): ReceivedWebPage => ({
  body: html,
  contentType: (contentType ?? '').replace(/^[^;]*/, 'text/html'),
  url,
})

function valuesOf(
  known: (typeof EXTRACTABLE_PAGE_PARTS)[number],
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
