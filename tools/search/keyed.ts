import Type from 'typebox'
import { Maybe, source, words } from './source.ts'

/** `GET /search?format=json`; it takes no limit. */
export const searxngAt = (base: string) =>
  source({
    name: 'searxng',
    schema: Type.Object({
      results: Type.Array(
        Type.Object({ title: Type.String(), url: Type.String(), content: Maybe }),
      ),
    }),
    request: ({ query }) => ({ url: `${base}/search?q=${words(query)}&format=json` }),
    read: ({ results }) => results.map(({ title, url, content }) => [title, url, content ?? '']),
  })

/** `GET /res/v1/web/search` with its token. */
export const braveAt = (base: string, key: string) =>
  source({
    name: 'brave',
    schema: Type.Object({
      // Absent where there is nothing.
      web: Type.Optional(
        Type.Object({
          results: Type.Array(
            Type.Object({ title: Type.String(), url: Type.String(), description: Maybe }),
          ),
        }),
      ),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/res/v1/web/search?q=${words(query)}&count=${limit}`,
      headers: { 'x-subscription-token': key },
    }),
    read: ({ web }) =>
      (web?.results ?? []).map(({ title, url, description }) => [title, url, description ?? '']),
  })

/** `POST /search` with its key. */
export const tavilyAt = (base: string, key: string) =>
  source({
    name: 'tavily',
    schema: Type.Object({
      results: Type.Array(
        Type.Object({ title: Type.String(), url: Type.String(), content: Maybe }),
      ),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/search`,
      headers: { authorization: `Bearer ${key}` },
      body: { query, max_results: limit },
    }),
    read: ({ results }) => results.map(({ title, url, content }) => [title, url, content ?? '']),
  })
