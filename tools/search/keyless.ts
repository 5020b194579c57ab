import Type from 'typebox'
import { Maybe, source, words } from './source.ts'

/** MediaWiki, `list=search`. */
export const wikipediaAt = (base: string) =>
  source({
    name: 'wikipedia',
    schema: Type.Object({
      query: Type.Object({
        search: Type.Array(Type.Object({ title: Type.String(), snippet: Type.String() })),
      }),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/w/api.php?action=query&list=search&format=json&formatversion=2&srlimit=${limit}&srsearch=${words(query)}`,
    }),
    read: ({ query: { search } }) =>
      search.map(({ title, snippet }) => {
        const page = encodeURIComponent(title.replaceAll(' ', '_'))
        return [title, `${base}/wiki/${page}`, snippet]
      }),
  })

/** Stories of Hacker News, by Algolia. */
export const hackernewsAt = (base: string) =>
  source({
    name: 'hackernews',
    schema: Type.Object({
      hits: Type.Array(
        Type.Object({ objectID: Type.String(), title: Maybe, url: Maybe, story_text: Maybe }),
      ),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/api/v1/search?tags=story&hitsPerPage=${limit}&query=${words(query)}`,
    }),
    read: ({ hits }) =>
      hits.map(({ objectID, title, url, story_text }) => {
        const item = `https://news.ycombinator.com/item?id=${encodeURIComponent(objectID)}`
        return [title ?? '', url ?? item, story_text ?? '']
      }),
  })

/** Stack Overflow, `search/excerpts`. */
export const stackexchangeAt = (base: string) =>
  source({
    name: 'stackexchange',
    schema: Type.Object({
      items: Type.Array(
        Type.Object({ question_id: Type.Integer(), title: Type.String(), excerpt: Type.String() }),
      ),
    }),
    request: ({ query, limit }) => ({
      url: `${base}/2.3/search/excerpts?site=stackoverflow&order=desc&sort=relevance&pagesize=${limit}&q=${words(query)}`,
    }),
    read: ({ items }) =>
      items.map(({ question_id, title, excerpt }) => [
        title,
        `https://stackoverflow.com/questions/${question_id}`,
        excerpt,
      ]),
  })

const Topic = Type.Object({
  Text: Maybe,
  FirstURL: Maybe,
  Topics: Type.Optional(Type.Array(Type.Object({ Text: Maybe, FirstURL: Maybe }))),
})

/** Instant answers: topics only, it has no list of results. */
export const duckduckgoAt = (base: string) =>
  source({
    name: 'duckduckgo',
    schema: Type.Object({
      Heading: Maybe,
      AbstractText: Maybe,
      AbstractURL: Maybe,
      RelatedTopics: Type.Array(Topic),
    }),
    request: ({ query }) => ({
      url: `${base}/?q=${words(query)}&format=json&no_html=1&skip_disambig=1`,
    }),
    read: ({ Heading, AbstractText, AbstractURL, RelatedTopics }) => [
      ...(AbstractURL ? [[Heading ?? '', AbstractURL, AbstractText ?? ''] as const] : []),
      ...RelatedTopics.flatMap((topic) => topic.Topics ?? [topic]).flatMap(({ Text, FirstURL }) =>
        Text && FirstURL ? [[Text.split(' - ')[0] ?? '', FirstURL, Text] as const] : [],
      ),
    ],
  })
