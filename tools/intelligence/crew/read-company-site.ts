import agentSee from '../../perception/agent-see.ts'
import { ServiceError } from '../../../core/errors.ts'
import type { ToolContext } from '../../define-tool.ts'
import type { ResearchSource } from '../../web/research/gather-sources.ts'
import type { UnreadPage } from './web-research.ts'

const SUBPAGES = 3
/** Pages that tell what something is and what it costs, the most telling first. */
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
  /** Where its first page lies. */
  readonly url: string
  readonly sources: readonly ResearchSource[]
  readonly unread: readonly UnreadPage[]
  /** Things on its pages that may be meant to mislead a machine. */
  readonly anomalies: number
}

/** The address of a domain's first page, as `https:` unless it says otherwise. */
export const toSiteUrl = (domain: string): string =>
  /^https?:\/\//i.test(domain) ? domain : `https://${domain}/`

/** What a domain is called: the label before its suffix, or the whole of an address in numbers. */
function nameOf(domain: string): string {
  const { hostname } = new URL(toSiteUrl(domain))
  const labels = hostname.replace(/^www\./, '').split('.')
  if (labels.length < 2 || /^[\d.]+$|^\[/.test(hostname)) return hostname
  // Of `name.co.uk` the short label before the last belongs to the suffix.
  const short = labels.length > 2 && (labels.at(-2) ?? '').length <= 3
  return labels.at(short ? -3 : -2) ?? hostname
}

/** The first page, which must be readable, and up to three pages it leads to that tell more. */
export async function readCompanySite(domain: string, given: ToolContext): Promise<CompanySite> {
  // What a page is read with is told by the stage.
  const context = { ...given, emit: () => {} }
  const first = await agentSee.run({ url: toSiteUrl(domain) }, context)
  const { url, status_code: status, title = '', body_text: text } = first
  if (status !== 200) throw new ServiceError('upstream_error', { url, upstream_status: status })
  if (text.trim() === '') throw new ServiceError('no_evidence', { url, reason: 'empty_page' })
  const unread: UnreadPage[] = []
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

async function subpage(url: string, context: ToolContext, unread: UnreadPage[]) {
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

/** Pages of the same origin that the first leads to, the most telling first. */
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
