import Type from 'typebox'
import {
  OptionalNullableString,
  defineSearchAdapter,
  encodeSearchQuery,
} from './define-search-adapter.ts'

/** Searches SearXNG with `GET /search?format=json`, which has no limit parameter. */
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

/** Searches Brave with `GET /res/v1/web/search` and a token. */
export const braveAdapter = (base: string, key: string) =>
  defineSearchAdapter({
    name: 'brave',
    schema: Type.Object({
      // Absent without results.
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

/** Searches Tavily with `POST /search` and a key. */
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
