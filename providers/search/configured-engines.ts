import Type from 'typebox'
import {
  OptionalNullableString,
  defineSearchAdapter,
  encodeSearchQuery,
} from './define-search-adapter.ts'

/** `GET /search?format=json`; it takes no limit. */
export const searxngAdapter = (base: string) =>
  defineSearchAdapter({
    name: 'searxng',
    schema: Type.Object({
      results: Type.Array(
        Type.Object({ title: Type.String(), url: Type.String(), content: OptionalNullableString }),
      ),
    }),
    request: ({ query }) => ({ url: `${base}/search?q=${encodeSearchQuery(query)}&format=json` }),
    read: ({ results }) => results.map(({ title, url, content }) => [title, url, content ?? '']),
  })

/** `GET /res/v1/web/search` with its token. */
export const braveAdapter = (base: string, key: string) =>
  defineSearchAdapter({
    name: 'brave',
    schema: Type.Object({
      // Absent where there is nothing.
      web: Type.Optional(
        Type.Object({
          results: Type.Array(
            Type.Object({
              title: Type.String(),
              url: Type.String(),
              description: OptionalNullableString,
            }),
          ),
        }),
      ),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/res/v1/web/search?q=${encodeSearchQuery(query)}&count=${limit}`,
      headers: { 'x-subscription-token': key },
    }),
    read: ({ web }) =>
      (web?.results ?? []).map(({ title, url, description }) => [title, url, description ?? '']),
  })

/** `POST /search` with its key. */
export const tavilyAdapter = (base: string, key: string) =>
  defineSearchAdapter({
    name: 'tavily',
    schema: Type.Object({
      results: Type.Array(
        Type.Object({ title: Type.String(), url: Type.String(), content: OptionalNullableString }),
      ),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/search`,
      headers: { authorization: `Bearer ${key}` },
      body: { query, max_results: limit },
    }),
    read: ({ results }) => results.map(({ title, url, content }) => [title, url, content ?? '']),
  })
