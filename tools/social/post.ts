import { plain } from '../search/plain.ts'
import type { Post, SocialWanted } from './port.ts'

/** Where posts come from. */
export interface Platform {
  readonly name: string
  /** Posts about a query, in any order; rejects when it cannot answer at all. */
  ask(wanted: SocialWanted, signal: AbortSignal): Promise<Heard>
}
export interface Heard {
  readonly posts: readonly Post[]
  readonly mode: 'live' | 'fixture'
}

const LONGEST_POST = 600

/** The text of a post as it is shown. */
export const postText = (html: string): string => plain(html, LONGEST_POST)

/** ISO 8601, or null for what is no instant. */
export function instantOf(text: string): string | null {
  const at = Date.parse(text)
  return Number.isNaN(at) ? null : new Date(at).toISOString()
}
