import type { Clock } from '../core/clock.ts'
import { newUuidV7 } from '../core/ids-and-api-keys.ts'
import { ServiceError, type ErrorCode } from '../core/errors.ts'
import type { BackpackRefusalCount } from '../core/aggregate-commit-row-types.ts'

/** Counts rejections by Backpacks for their spend logs. */

export interface BackpackRefusalLogDeps {
  readonly clock: Clock
  /** Adds the counts to the stored ones. */
  readonly write: (counts: readonly BackpackRefusalCount[]) => Promise<void>
  readonly log: (message: string, error: unknown) => void
  readonly everyMs?: number
}

/** Maximum kinds of rejections in memory; more are dropped until the next write. */
const MAX_WAITING = 5_000
const MINUTE_MS = 60_000

const BACKPACK_REFUSAL_CODES: ReadonlySet<ErrorCode> = new Set([
  'FUSE_TRIPPED',
  'TOOL_NOT_ALLOWED',
  'EXPIRED',
  'REVOKED',
])

/**
 * Counts rejections by Backpack, tool, code and minute in memory and writes them at most once per
 * second, so that a caller in a loop writes one row per minute. A crash loses unwritten counts,
 * which record no spending.
 */
export function createBackpackRefusalLog({
  clock,
  write,
  log,
  everyMs = 1_000,
}: BackpackRefusalLogDeps) {
  let waiting = new Map<string, BackpackRefusalCount>()
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()

  function note(refused: Pick<BackpackRefusalCount, 'backpackId' | 'tool' | 'code'>): void {
    const at = Math.floor(clock.now())
    const minute = Math.floor(at / MINUTE_MS)
    const key = [refused.backpackId, refused.tool, refused.code, minute].join(' ')
    const before = waiting.get(key)
    if (before === undefined && waiting.size >= MAX_WAITING) return
    const { id = newUuidV7(at), firstAt = at, times = 0 } = before ?? {}
    waiting.set(key, { ...refused, id, firstAt, lastAt: at, times: times + 1 })
    timer ??= setTimeout(() => void flush(), everyMs).unref()
  }

  /** Writes the counts so far. Never rejects. */
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

  /** Counts an error if a Backpack caused it. */
  function noteError(backpackId: string | null, tool: string, error: unknown): void {
    if (backpackId === null || !(error instanceof ServiceError)) return
    if (BACKPACK_REFUSAL_CODES.has(error.code)) note({ backpackId, tool, code: error.code })
  }

  return { noteError, flush }
}
export type BackpackRefusalLog = ReturnType<typeof createBackpackRefusalLog>
