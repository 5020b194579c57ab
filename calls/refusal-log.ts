import type { Clock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { ServiceError, type ErrorCode } from '../core/errors.ts'
import type { RefusalCount } from '../core/rows.ts'

export interface RefusalLogParts {
  readonly clock: Clock
  /** Adds the counts to those that are kept. */
  readonly write: (counts: readonly RefusalCount[]) => Promise<void>
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

/** Kinds of refusals that wait to be written; more within one pause are not kept. */
const MAX_WAITING = 5_000
const MINUTE_MS = 60_000

const OF_BACKPACK: ReadonlySet<ErrorCode> = new Set([
  'FUSE_TRIPPED',
  'TOOL_NOT_ALLOWED',
  'EXPIRED',
  'REVOKED',
])

/**
 * Counts what Backpacks refuse, for their spend log. A refusal costs a counter in memory; the counts
 * are written together, once a second at most, by Backpack, tool, code and minute. So a caller in a
 * loop writes one row a minute. What a node had not written when it died is lost: nothing was spent.
 */
export function createRefusalLog({ clock, write, log, everyMs = 1_000 }: RefusalLogParts) {
  let waiting = new Map<string, RefusalCount>()
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  function note(refused: Pick<RefusalCount, 'backpackId' | 'tool' | 'code'>): void {
    const at = Math.floor(clock.now())
    const minute = Math.floor(at / MINUTE_MS)
    const key = [refused.backpackId, refused.tool, refused.code, minute].join(' ')
    const before = waiting.get(key)
    if (before === undefined && waiting.size >= MAX_WAITING) return
    const { id = newId(at), firstAt = at, times = 0 } = before ?? {}
    waiting.set(key, { ...refused, id, firstAt, lastAt: at, times: times + 1 })
    timer ??= setTimeout(() => void flush(), everyMs).unref()
  }

  /** Writes what has been counted so far; resolves also where that failed. */
  function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    if (waiting.size === 0) return writing
    const counts = [...waiting.values()]
    waiting = new Map()
    writing = writing
      .then(() => write(counts))
      .catch((error: unknown) => log('refusals not written', error))
    return writing
  }

  /** Notes an error that is the refusal of a Backpack, and nothing else. */
  function noteError(backpackId: string | null, tool: string, error: unknown): void {
    if (backpackId === null || !(error instanceof ServiceError)) return
    if (OF_BACKPACK.has(error.code)) note({ backpackId, tool, code: error.code })
  }

  return { noteError, flush }
}
export type RefusalLog = ReturnType<typeof createRefusalLog>
