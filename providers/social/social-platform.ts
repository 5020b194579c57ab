import { htmlSnippetToText } from '../text/html-snippet.ts'
import type { SocialPost, SocialSearchQuery } from './port.ts'

/** Where posts come from. */
export interface SocialPlatform {
  readonly name: string
  /** Posts about a query, in any order; rejects when it cannot answer at all. */
  search(wanted: SocialSearchQuery, signal: AbortSignal): Promise<PlatformPosts>
}
export interface PlatformPosts {
  readonly posts: readonly SocialPost[]
  readonly mode: 'live' | 'fixture'
}

const MAX_POST_CHARS = 600

/** The text of a post as it is shown. */
export const toPostText = (html: string): string => htmlSnippetToText(html, MAX_POST_CHARS)

/** ISO 8601, or null for what is no instant. */
export function parsePostTime(text: string): string | null {
  const at = Date.parse(text)
  return Number.isNaN(at) ? null : new Date(at).toISOString()
}
