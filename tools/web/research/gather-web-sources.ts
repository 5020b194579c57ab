import { ServiceError } from '../../../core/errors.ts'
import { callerIdOf, workerPlaceOf, type ToolContext } from '../../define-tool.ts'
import type { WebSearchResult, WebSearchAnswer } from '../../../providers/search/web-search-port.ts'

/** A source of an answer. */
export interface ResearchSource {
  readonly title: string
  readonly url: string
  /** The provider that found it. */
  readonly source: string
  readonly text: string
  /** `snippet`: the page could not be read, only its search snippet. */
  readonly kind: 'page' | 'snippet' | 'hive'
}

export interface GatheredWebSources {
  readonly sources: readonly ResearchSource[]
  readonly searches: readonly { readonly kind: string; readonly count: number }[]
  readonly unread: readonly { readonly url: string; readonly code: string }[]
  /** The provider that searched the web; null where none answered. */
  readonly served: Pick<WebSearchAnswer, 'source' | 'mode'> | null
  /** Providers of web search that failed, each once. */
  readonly failed: WebSearchAnswer['failed']
}

const MAX_RESULTS = 6
const MAX_PAGES = 6
const MAX_HIVE_ENTRIES = 4
const MAX_KEYWORDS = 5
const MAX_PAGE_BYTES = 2 * 1024 * 1024
const PAGE_TIMEOUT_MS = 8_000
const MIN_SNIPPET_CHARS = 40

/** Runs three searches in parallel, then reads their pages in parallel. */
export async function gatherWebSources(
  query: string,
  context: ToolContext,
): Promise<GatheredWebSources> {
  const { search, text, caller, signal, emit } = context
  const owner = callerIdOf(caller)
  const words = (await text.keywords(query, MAX_KEYWORDS)).map((one) => one.text).join(' ')
  const asking = async (kind: string, asked: string) => {
    const answer = await search.searchWeb(
      { query: asked, limit: MAX_RESULTS, owner },
      signal,
      (status) => emit({ type: 'progress', step: `search:${status.source}`, note: status.outcome }),
    )
    emit({ type: 'partial', path: `/searches/${kind}`, value: { count: answer.results.length } })
    return answer
  }
  const [whole, narrowed, entries] = await Promise.all([
    asking('query', query),
    words === '' || words === query.toLowerCase() ? null : asking('keywords', words),
    search.searchHive({ query, limit: MAX_HIVE_ENTRIES }),
  ])
  const asked = [whole, ...(narrowed === null ? [] : [narrowed])]
  const answers = asked.filter((one) => !one.degraded)
  const wanted = interleaveSearchResults(answers.map(({ results }) => results)).slice(0, MAX_PAGES)
  emit({ type: 'progress', step: 'pages', note: `${wanted.length} to read` })
  const unread: { url: string; code: string }[] = []
  const pages = await Promise.all(
    wanted.map(async (found, at) => {
      const page = await readSourcePage(found, context, unread)
      if (page !== null) emit({ type: 'partial', path: `/sources/${at}`, value: { ...found } })
      return page ?? toSnippetSource(found)
    }),
  )
  const hive = entries.map(({ title, url, source, content }) => {
    return { title, url, source, text: content, kind: 'hive' as const }
  })
  return {
    sources: [...pages.flatMap((page) => (page === null ? [] : [page])), ...hive],
    searches: [
      { kind: 'query', count: whole.degraded ? 0 : whole.results.length },
      ...(narrowed === null
        ? []
        : [{ kind: 'keywords', count: narrowed.degraded ? 0 : narrowed.results.length }]),
      { kind: 'hive', count: entries.length },
    ],
    unread,
    served: answers[0] ?? null,
    failed: uniqueFailures(asked.flatMap(({ failed }) => failed)),
  }
}

const uniqueFailures = (failed: WebSearchAnswer['failed']): WebSearchAnswer['failed'] => [
  ...new Map(failed.map((one) => [one.source, one])).values(),
]

/** Takes results from each list in turn, each page once. */
export function interleaveSearchResults(
  lists: readonly (readonly WebSearchResult[])[],
): WebSearchResult[] {
  const longest = Math.max(0, ...lists.map((list) => list.length))
  const mixed = Array.from({ length: longest }, (_, at) => lists.flatMap((list) => list[at] ?? []))
  const byUrl = new Map<string, WebSearchResult>()
  for (const found of mixed.flat()) {
    const url = found.url.replace(/#.*$/, '')
    if (!byUrl.has(url)) byUrl.set(url, found)
  }
  return [...byUrl.values()]
}

/** Returns the page; null where it cannot be read, with the reason in `unread`. */
export async function readSourcePage(
  { title, url, source }: WebSearchResult,
  context: ToolContext,
  unread: { url: string; code: string }[],
): Promise<ResearchSource | null> {
  const { egress, pages, signal } = context
  try {
    const reply = await egress.fetch({
      url,
      maxBytes: MAX_PAGE_BYTES,
      timeoutMs: PAGE_TIMEOUT_MS,
      signal,
    })
    const type = reply.headers['content-type'] ?? null
    const readable = /^\s*(?:text\/(?:html|plain)|application\/xhtml\+xml)/i.test(type ?? '')
    if (reply.status !== 200 || !readable) {
      unread.push({ url, code: reply.status === 200 ? 'not_a_page' : `status_${reply.status}` })
      return null
    }
    const received = { body: reply.body, contentType: type, url: reply.url }
    const page = await pages.text(received, workerPlaceOf(context))
    if (page.text === '') return null
    return { title: title === '' ? page.title : title, url, source, text: page.text, kind: 'page' }
  } catch (error) {
    if (signal.aborted || !(error instanceof ServiceError)) throw error
    unread.push({ url, code: error.code })
    return null
  }
}

/** Returns the search snippet of an unreadable page; null where it is too short. */
export const toSnippetSource = ({
  title,
  url,
  source,
  snippet,
}: WebSearchResult): ResearchSource | null =>
  snippet.length < MIN_SNIPPET_CHARS ? null : { title, url, source, text: snippet, kind: 'snippet' }
