import type { Clock } from '../../core/clock.ts'
import { createNodeRateLimiter } from '../../core/concurrency/node-rate-limiter.ts'
import {
  isCallableCommunityToolState,
  type CommunityToolRecord,
} from '../../domain/community-tool-record.ts'
import type { Tool } from '../define-tool.ts'

/** The community tools that this node knows, kept up to date by announcements of changes. */

export interface CommunityToolRegistryDeps {
  readonly clock: Pick<Clock, 'mono'>
  readonly store: {
    active(): Promise<readonly CommunityToolRecord[]>
    find(slug: string): Promise<CommunityToolRecord | null>
  }
  /** Throws for a record whose schemas are not accepted any more. */
  readonly makeTool: (record: CommunityToolRecord) => Tool
  readonly log: (message: string, error: unknown) => void
}

/** What a catalogue reads of it. */
export interface CommunityToolRegistryReader {
  /** Returns a tool in any state; only of those that this node knows. */
  find(slug: string): Tool | undefined
  /** Tools that can be called, by their slug. */
  list(): readonly Tool[]
  /** Reads an unknown tool: its announcement may not have arrived yet. Null if there is nothing to wait for. */
  load(slug: string): Promise<void> | null
}

export interface CommunityToolRegistry extends CommunityToolRegistryReader {
  /** Reads all tools, also those that this node knows and that have been retired since. */
  reload(): Promise<void>
  /** Reads one tool that has changed. */
  refresh(slug: string): Promise<void>
}

export const COMMUNITY_TOOL_SLUG_PATTERN = '^[a-z0-9][a-z0-9-]{2,47}$'
const SLUG = new RegExp(COMMUNITY_TOOL_SLUG_PATTERN)
/** Unknown names cost a query each; nobody needs many of them. */
const UNKNOWN_NAMES = {
  name: 'unknown_tools',
  subject: 'unknown names of tools',
  max: 50,
  per: 'caller',
  windowSeconds: 1,
} as const

/** The slug as community tools spell it. */
export const toCommunityToolSlug = (name: string): string => name.replaceAll('_', '-')

export function createCommunityToolRegistry(
  deps: CommunityToolRegistryDeps,
): CommunityToolRegistry {
  const { clock, store, makeTool, log } = deps
  const tools = new Map<string, Tool>()
  const lookups = createNodeRateLimiter(clock, UNKNOWN_NAMES)
  let listed: readonly Tool[] | null = null

  function put(record: CommunityToolRecord): void {
    const known = tools.get(record.slug)?.community?.record
    if (known !== undefined && known.changeId > record.changeId) return
    try {
      tools.set(record.slug, makeTool(record))
      listed = null
    } catch (error) {
      log(`the tool ${record.slug} cannot be offered`, error)
    }
  }

  const refresh = async (slug: string) => {
    const record = await store.find(slug)
    if (record !== null) put(record)
  }

  function mayLookUp(): boolean {
    try {
      lookups.assertWithinLimit('')
      lookups.recordHit('')
      return true
    } catch {
      return false
    }
  }

  return {
    find: (name) => tools.get(toCommunityToolSlug(name)),
    list() {
      listed ??= [...tools.values()]
        .filter(
          ({ community }) =>
            community !== undefined && isCallableCommunityToolState(community.record.state),
        )
        .sort((one, other) => (one.slug < other.slug ? -1 : 1))
      return listed
    },
    load(name) {
      const slug = toCommunityToolSlug(name)
      if (tools.has(slug) || !SLUG.test(slug) || !mayLookUp()) return null
      return refresh(slug)
    },
    refresh,
    async reload() {
      const active = await store.active()
      for (const record of active) put(record)
      const seen = new Set(active.map(({ slug }) => slug))
      for (const [slug, { community }] of tools)
        if (!seen.has(slug) && community?.record.state !== 'retired') await refresh(slug)
    },
  }
}
