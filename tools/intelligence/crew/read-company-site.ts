import agentSee from '../../perception/agent-see.ts'
import { ServiceError } from '../../../core/errors.ts'
import { deriveToolContext, type ToolContext } from '../../define-tool.ts'
import type { ResearchSource } from '../../web/research/gather-web-sources.ts'
import type { UnreadableSearchResultPage } from './crew-web-and-social-search.ts'

/** Reads the pages of a company's site. */

const SUBPAGES = 3
/** Paths of pages that describe a product and its price, most informative first. */
const INFORMATIVE_PATHS = [
  'pricing',
  'plans',
  'product',
  'features',
  'about',
  'solutions',
  'customers',
  'docs',
]

export interface CompanySite {
  readonly name: string
  /** URL of its home page. */
  readonly url: string
  readonly sources: readonly ResearchSource[]
  readonly unread: readonly UnreadableSearchResultPage[]
  /** Number of texts on its pages that may try to mislead a machine. */
  readonly anomalies: number
}

/** Returns the URL of a domain's home page, with `https:` by default. */
export const toSiteUrl = (domain: string): string =>
  /^https?:\/\//i.test(domain) ? domain : `https://${domain}/`

/** Returns the name in a domain: the label before its suffix, or the whole of an IP address. */
function nameOf(domain: string): string {
  const { hostname } = new URL(toSiteUrl(domain))
  const labels = hostname.replace(/^www\./, '').split('.')
  if (labels.length < 2 || /^[\d.]+$|^\[/.test(hostname)) return hostname
  // In `name.co.uk` the short second-level label belongs to the suffix.
  const short = labels.length > 2 && (labels.at(-2) ?? '').length <= 3
  return labels.at(short ? -3 : -2) ?? hostname
}

/** Reads the home page, which must be readable, and up to three informative pages linked from it. */
export async function readCompanySite(domain: string, given: ToolContext): Promise<CompanySite> {
  // The stage reports the provider, so the pages emit nothing.
  const context = deriveToolContext(given, { emit: () => {} })
  const first = await agentSee.run({ url: toSiteUrl(domain) }, context)
  const { url, status_code: status, title = '', body_text: text } = first
  if (status !== 200) throw new ServiceError('upstream_error', { url, upstream_status: status })
  if (text.trim() === '') throw new ServiceError('no_evidence', { url, reason: 'empty_page' })
  const unread: UnreadableSearchResultPage[] = []
  const pages = await Promise.all(
    findInformativeLinks(first.links ?? [], url).map((one) => subpage(one, context, unread)),
  )
  const read = pages.flatMap((page) => page ?? [])
  return {
    name: nameOf(domain),
    url,
    sources: [toSiteSource(title, url, text), ...read.map(({ source }) => source)],
    unread,
    anomalies: read.reduce((sum, one) => sum + one.anomalies, first.anomalies.length),
  }
}

const toSiteSource = (title: string, url: string, text: string): ResearchSource => ({
  title,
  url,
  source: 'site',
  text,
  kind: 'page',
})

async function subpage(url: string, context: ToolContext, unread: UnreadableSearchResultPage[]) {
  try {
    const page = await agentSee.run({ url, engine: 'http' }, context)
    const { status_code: status, title = '', body_text: text, anomalies } = page
    if (status === 200 && text.trim() !== '')
      return { source: toSiteSource(title, page.url, text), anomalies: anomalies.length }
    unread.push({ url, code: status === 200 ? 'empty_page' : `status_${status}` })
  } catch (error) {
    if (context.signal.aborted || !(error instanceof ServiceError)) throw error
    unread.push({ url, code: error.code })
  }
  return null
}

/** Returns links to pages of the same origin, most informative first. */
function findInformativeLinks(links: readonly { readonly url: string }[], from: string): string[] {
  const { origin } = new URL(from)
  const found = new Map<string, number>()
  for (const link of links) {
    if (!URL.canParse(link.url)) continue
    const url = new URL(link.url)
    url.hash = ''
    const rank = INFORMATIVE_PATHS.findIndex((word) => url.pathname.toLowerCase().includes(word))
    if (url.origin === origin && rank >= 0 && url.href !== from && !found.has(url.href))
      found.set(url.href, rank)
  }
  return [...found]
    .sort(([, a], [, b]) => a - b)
    .slice(0, SUBPAGES)
    .map(([url]) => url)
}
