import { escapeMarkup } from '../escape-markup.ts'

/** Renders RSS 2.0 feeds (https://www.rssboard.org/rss-specification). */

export interface RssItem {
  readonly title: string
  readonly link: string
  readonly description: string
  /** Unique and unchanging; not a link unless it equals `link`. */
  readonly guid: string
  readonly at: Date
  readonly categories?: readonly string[]
}

export interface RssFeed {
  readonly title: string
  readonly link: string
  /** Where the feed itself is. */
  readonly self: string
  readonly description: string
  /** Newest first. */
  readonly items: readonly RssItem[]
}

/** Returns the feed as an XML document. */
export function renderRssFeed(feed: RssFeed): string {
  const { title, link, self, description, items } = feed
  const built = items[0] === undefined ? '' : element('lastBuildDate', items[0].at.toUTCString())
  return `<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>${element('title', title)}${element('link', link)}${element('description', description)}${built}<atom:link href="${escapeMarkup(self)}" rel="self" type="application/rss+xml"/>${items.map(renderItem).join('')}</channel></rss>
`
}

const renderItem = ({ title, link, description, guid, at, categories = [] }: RssItem): string =>
  `\n<item>${element('title', title)}${element('link', link)}${element('description', description)}<guid isPermaLink="${guid === link}">${escapeMarkup(guid)}</guid>${element('pubDate', at.toUTCString())}${categories.map((name) => element('category', name)).join('')}</item>`

const element = (name: string, text: string): string => `<${name}>${escapeMarkup(text)}</${name}>`
