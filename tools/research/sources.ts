import { ServiceError } from '../../core/errors.ts'
import { ownerOf, type ToolContext } from '../define.ts'
import { readAs } from '../egress/read-as.ts'
import { pageText } from '../pages/text.ts'
import type { Found, SearchAnswer } from '../search/port.ts'

/** What an answer may be taken from. */
export interface Source {
  readonly title: string
  readonly url: string
  /** Who found it. */
  readonly source: string
  readonly text: string
  /** `snippet`: the page could not be read, only what the search says of it. */
  readonly kind: 'page' | 'snippet' | 'hive'
}

export interface Gathered {
  readonly sources: readonly Source[]
  readonly searches: readonly { readonly kind: string; readonly count: number }[]
  readonly unread: readonly { readonly url: string; readonly code: string }[]
  /** Who searched the web; null where nobody could. */
  readonly served: Pick<SearchAnswer, 'source' | 'mode'> | null
  /** Sources of the web that were asked and failed, each once. */
  readonly failed: SearchAnswer['failed']
}

const RESULTS = 6
const PAGES = 6
const ENTRIES = 4
const KEYWORDS = 5
const PAGE_BYTES = 2 * 1024 * 1024
const PAGE_MS = 8_000
const SHORTEST_SNIPPET = 40

/** Three searches side by side, then the pages they name, side by side too. */
export async function gather(query: string, context: ToolContext): Promise<Gathered> {
  const { search, text, caller, signal, emit } = context
  const owner = ownerOf(caller)
  const words = (await text.keywords(query, KEYWORDS)).map((one) => one.text).join(' ')
  const asking = async (kind: string, asked: string) => {
    const answer = await search.web({ query: asked, limit: RESULTS, owner }, signal, (heard) =>
      emit({ type: 'progress', step: `search:${heard.source}`, note: heard.outcome }),
    )
    emit({ type: 'partial', path: `/searches/${kind}`, value: { count: answer.results.length } })
    return answer
  }
  const [whole, narrowed, entries] = await Promise.all([
    asking('query', query),
    words === '' || words === query.toLowerCase() ? null : asking('keywords', words),
    search.hive({ query, limit: ENTRIES }),
  ])
  const asked = [whole, ...(narrowed === null ? [] : [narrowed])]
  const answers = asked.filter((one) => !one.degraded)
  const wanted = merged(answers.map(({ results }) => results)).slice(0, PAGES)
  emit({ type: 'progress', step: 'pages', note: `${wanted.length} to read` })
  const unread: { url: string; code: string }[] = []
  const pages = await Promise.all(
    wanted.map(async (found, at) => {
      const page = await readPage(found, context, unread)
      if (page !== null) emit({ type: 'partial', path: `/sources/${at}`, value: { ...found } })
      return page ?? ofSnippet(found)
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
    failed: eachOnce(asked.flatMap(({ failed }) => failed)),
  }
}

const eachOnce = (failed: SearchAnswer['failed']): SearchAnswer['failed'] => [
  ...new Map(failed.map((one) => [one.source, one])).values(),
]

/** Taken in turn from each list, every page once. */
export function merged(lists: readonly (readonly Found[])[]): Found[] {
  const longest = Math.max(0, ...lists.map((list) => list.length))
  const mixed = Array.from({ length: longest }, (_, at) => lists.flatMap((list) => list[at] ?? []))
  const byUrl = new Map<string, Found>()
  for (const found of mixed.flat()) {
    const url = found.url.replace(/#.*$/, '')
    if (!byUrl.has(url)) byUrl.set(url, found)
  }
  return [...byUrl.values()]
}

/** The page, or null where it cannot be read; why stands in `unread` then. */
export async function readPage(
  { title, url, source }: Found,
  { egress, signal }: Pick<ToolContext, 'egress' | 'signal'>,
  unread: { url: string; code: string }[],
): Promise<Source | null> {
  try {
    const reply = await egress.fetch({ url, maxBytes: PAGE_BYTES, timeoutMs: PAGE_MS, signal })
    const type = reply.headers['content-type'] ?? null
    const readable = /^\s*(?:text\/(?:html|plain)|application\/xhtml\+xml)/i.test(type ?? '')
    if (reply.status !== 200 || !readable) {
      unread.push({ url, code: reply.status === 200 ? 'not_a_page' : `status_${reply.status}` })
      return null
    }
    const raw = String(readAs('text', reply.body, type).data)
    const page = pageText(raw)
    if (page.text === '') return null
    return { title: title === '' ? page.title : title, url, source, text: page.text, kind: 'page' }
  } catch (error) {
    if (signal.aborted || !(error instanceof ServiceError)) throw error
    unread.push({ url, code: error.code })
    return null
  }
}

/** What a search says of a page that cannot be read; null where that is too little. */
export const ofSnippet = ({ title, url, source, snippet }: Found): Source | null =>
  snippet.length < SHORTEST_SNIPPET ? null : { title, url, source, text: snippet, kind: 'snippet' }
