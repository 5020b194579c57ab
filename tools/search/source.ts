import Type, { type Static, type TSchema } from 'typebox'
import type { Upstream } from '../upstream/client.ts'
import { line, plain } from './plain.ts'
import type { Found, SearchWanted } from './port.ts'

export interface SearchAdapter {
  readonly name: string
  /** Its results, best first; rejects when it cannot answer at all. */
  ask(wanted: SearchWanted, signal: AbortSignal): Promise<Answered>
}
interface Answered {
  readonly results: readonly Found[]
  readonly mode: 'live' | 'fixture'
}

const LONGEST_TITLE = 200
const LONGEST_SNIPPET = 500

interface Source<T extends TSchema> {
  readonly name: string
  readonly schema: T
  readonly request: (wanted: Omit<SearchWanted, 'owner'>) => {
    readonly url: string
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: unknown
  }
  /** Title, address, snippet; both texts may hold HTML. */
  readonly read: (data: Static<T>) => readonly Hit[]
}
type Hit = readonly [title: string, url: string, snippet: string]

/** A source of results from the form of its requests and its answers. */
export const source =
  <T extends TSchema>({ name, schema, request, read }: Source<T>) =>
  (upstream: Upstream, timeoutMs: number): SearchAdapter => ({
    name,
    async ask(wanted, signal) {
      const { owner } = wanted
      const asked = { provider: name, owner, ...request(wanted), schema, timeoutMs, signal }
      const { data, mode } = await upstream.json(asked)
      const results = read(data).flatMap((hit) => found(hit, name))
      return { results: results.slice(0, wanted.limit), mode }
    },
  })

function found([title, url, snippet]: Hit, name: string): Found[] {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url)) return []
  const shown = plain(title, LONGEST_TITLE)
  return [
    {
      title: shown === '' ? line(url, LONGEST_TITLE) : shown,
      url: new URL(url).href,
      snippet: plain(snippet, LONGEST_SNIPPET),
      source: name,
    },
  ]
}

/** Absent, null or text. */
export const Maybe = Type.Optional(Type.Union([Type.String(), Type.Null()]))
/** A query in an address. */
export const words = (query: string) => encodeURIComponent(query)
