import { htmlSnippetToText } from '../text/html-snippet-to-text.ts'
import type { SocialPost, SocialSearchQuery } from './social-port.ts'

/** A social platform. */
export interface SocialPlatform {
  readonly name: string
  /** Returns posts about a query in any order; rejects when it cannot answer. */
  search(wanted: SocialSearchQuery, signal: AbortSignal): Promise<SocialPlatformSearchResult>
}
export interface SocialPlatformSearchResult {
  readonly posts: readonly SocialPost[]
  readonly mode: 'live' | 'fixture'
}

const MAX_POST_CHARS = 600

/** Returns the visible text of a post. */
export const toVisibleSocialPostText = (html: string): string =>
  htmlSnippetToText(html, MAX_POST_CHARS)

/** Returns ISO 8601, or null for an invalid time. */
export function parseSocialPostTime(text: string): string | null {
  const at = Date.parse(text)
  return Number.isNaN(at) ? null : new Date(at).toISOString()
}
