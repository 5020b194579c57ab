import Type from 'typebox'
import {
  OptionalNullableString,
  defineSearchAdapter,
  encodeSearchQuery,
} from './define-search-adapter.ts'

/** Searches MediaWiki with `list=search`. */
export const wikipediaAdapter = (base: string) =>
  defineSearchAdapter({
    name: 'wikipedia',
    schema: Type.Object({
      query: Type.Object({
        search: Type.Array(Type.Object({ title: Type.String(), snippet: Type.String() })),
      }),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/w/api.php?action=query&list=search&format=json&formatversion=2&srlimit=${limit}&srsearch=${encodeSearchQuery(query)}`,
    }),
    read: ({ query: { search } }) =>
      search.map(({ title, snippet }) => {
        const page = encodeURIComponent(title.replaceAll(' ', '_'))
        return [title, `${base}/wiki/${page}`, snippet]
      }),
  })

/** Searches Hacker News stories with Algolia. */
export const hackernewsAdapter = (base: string) =>
  defineSearchAdapter({
    name: 'hackernews',
    schema: Type.Object({
      hits: Type.Array(
        Type.Object({
          objectID: Type.String(),
          title: OptionalNullableString,
          url: OptionalNullableString,
          story_text: OptionalNullableString,
        }),
      ),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/api/v1/search?tags=story&hitsPerPage=${limit}&query=${encodeSearchQuery(query)}`,
    }),
    read: ({ hits }) =>
      hits.map(({ objectID, title, url, story_text }) => {
        const item = `https://news.ycombinator.com/item?id=${encodeURIComponent(objectID)}`
        return [title ?? '', url ?? item, story_text ?? '']
      }),
  })

/** Searches Stack Overflow with `search/excerpts`. */
export const stackexchangeAdapter = (base: string) =>
  defineSearchAdapter({
    name: 'stackexchange',
    schema: Type.Object({
      items: Type.Array(
        Type.Object({ question_id: Type.Integer(), title: Type.String(), excerpt: Type.String() }),
      ),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/2.3/search/excerpts?site=stackoverflow&order=desc&sort=relevance&pagesize=${limit}&q=${encodeSearchQuery(query)}`,
    }),
    read: ({ items }) =>
      items.map(({ question_id, title, excerpt }) => [
        title,
        `https://stackoverflow.com/questions/${question_id}`,
        excerpt,
      ]),
  })

const Topic = Type.Object({
  Text: OptionalNullableString,
  FirstURL: OptionalNullableString,
  Topics: Type.Optional(
    Type.Array(Type.Object({ Text: OptionalNullableString, FirstURL: OptionalNullableString })),
  ),
})

/** Reads instant answers of DuckDuckGo, which has topics only and no result list. */
export const duckduckgoAdapter = (base: string) =>
  defineSearchAdapter({
    name: 'duckduckgo',
    schema: Type.Object({
      Heading: OptionalNullableString,
      AbstractText: OptionalNullableString,
      AbstractURL: OptionalNullableString,
      RelatedTopics: Type.Array(Topic),
    }),
    request: ({ query }) => ({
      url: `${base}/?q=${encodeSearchQuery(query)}&format=json&no_html=1&skip_disambig=1`,
    }),
    read: ({ Heading, AbstractText, AbstractURL, RelatedTopics }) => [
      ...(AbstractURL ? [[Heading ?? '', AbstractURL, AbstractText ?? ''] as const] : []),
      ...RelatedTopics.flatMap((topic) => topic.Topics ?? [topic]).flatMap(({ Text, FirstURL }) =>
        Text && FirstURL ? [[Text.split(' - ')[0] ?? '', FirstURL, Text] as const] : [],
      ),
    ],
  })
