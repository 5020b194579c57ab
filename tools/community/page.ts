import { LIMITS } from '../../core/limits.ts'
import type { Tool } from '../define-tool.ts'
import { schemaTextOf } from './untrusted-work-pool.ts'

/** Cuts lists that contain tools of strangers, so that no list grows with their number (decision 384). */

export interface CommunityToolPage {
  /** The slug of the last tool of the page before; null for the first page, which has the native tools too. */
  readonly after: string | null
  /** How many of their tools a page has. */
  readonly limit: number
  /** How many characters of their schemas; one tool may have more. Infinite where schemas are not shown. */
  readonly schemaChars: number
}

export const DEFAULT_COMMUNITY_TOOLS = 100
export const MAX_COMMUNITY_TOOLS = 200
/** Of a page that shows schemas: what marking their texts for models costs is bounded by it. */
export const PAGE_SCHEMA_CHARS = 64 * 1024

/** Of a document without pages: how many tools of strangers, and how large their schemas are in sum. */
const DOCUMENT_SCHEMA_CHARS = 512 * 1024
/** One that nobody has verified has no part of such a document beyond this. */
const SHORT_SCHEMA_CHARS = 8 * 1024

/** The tools of a page; `next` is null for the last page. */
export interface CommunityToolCut {
  readonly tools: readonly Tool[]
  readonly next: string | null
}

/** `community` is sorted by slug. */
export function cutCommunityTools(
  community: readonly Tool[],
  { after, limit, schemaChars }: CommunityToolPage,
): CommunityToolCut {
  const rest = after === null ? community : community.filter(({ slug }) => slug > after)
  let [taken, left] = [0, schemaChars]
  for (const tool of rest.slice(0, limit)) {
    if (left !== Infinity) left -= schemaCharsOf(tool)
    if (left < 0 && taken > 0) break
    taken += 1
  }
  const tools = rest.slice(0, taken)
  return { tools, next: taken < rest.length ? (tools.at(-1)?.slug ?? null) : null }
}

/** Verified ones first, and no large one of a stranger, so that nobody's tools take the place of all others. */
export function pickShortTools(
  community: readonly Tool[],
  isVerified: (tool: Tool) => boolean,
): readonly Tool[] {
  let [taken, left] = [0, DOCUMENT_SCHEMA_CHARS]
  const verified = community.filter(isVerified)
  return [...verified, ...community.filter((tool) => !isVerified(tool))].filter((tool) => {
    if (taken === LIMITS.communityOperations) return false
    const chars = schemaCharsOf(tool)
    if (chars > left || (chars > SHORT_SCHEMA_CHARS && !isVerified(tool))) return false
    ;[taken, left] = [taken + 1, left - chars]
    return true
  })
}

const schemaCharsOf = ({ input, output, examples }: Tool): number =>
  [input, output, examples].map((part) => schemaTextOf(part).length).reduce((a, b) => a + b)
