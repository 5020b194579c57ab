import { setTimeout as pause } from 'node:timers/promises'
import { explainMachineRejection } from '../actors/inspection/explain-machine-rejection.ts'
import { CommandRejectedError } from '../actors/command-context.ts'
import type { Clock } from '../core/clock.ts'
import { hmacSha256 } from '../core/key-derivation-and-encryption.ts'
import { LIMITS } from '../core/limits.ts'

/** Remembers what the machines refuse to agents, so that `why_url` of a problem can explain it. */

/** Who was refused what. */
export interface RefusedCaller {
  readonly agentId: string
  readonly keyId: string | null
  readonly requestId: string | null
}

/** Equal refusals of one agent and key, since they were last written. */
export interface ExplainedRefusalCount {
  readonly id: string
  readonly agentId: string
  readonly keyId: string | null
  readonly code: string
  readonly times: number
  readonly firstAt: number
  readonly lastAt: number
  readonly data: Readonly<Record<string, unknown>>
}

export interface ExplainedRefusalRecorderDeps {
  readonly clock: Clock
  /** Makes ids that nobody can guess, the same on all nodes. */
  readonly key: Buffer
  readonly publicUrl: string
  readonly write: (refusals: readonly ExplainedRefusalCount[]) => Promise<void>
  readonly log: (message: string, error: unknown) => void
}

/** Different refusals in memory; more are not explained until the next write. */
const MAX_WAITING = 2_000
const WRITE_MS = 1_000
/** Details that name a limit and its figures. */
const FIGURE = /_usdc$|^(limit|limit_source|limit_calls|reason|tool|task_id|backpack_id|until)$/

/**
 * Counts equal refusals and writes them at most once a second, apart from any commit. A crash loses
 * what was not written. Of one agent only the latest wait, so that it cannot take the room of others.
 */
export function createExplainedRefusalRecorder({
  clock,
  key,
  publicUrl,
  write,
  log,
}: ExplainedRefusalRecorderDeps) {
  /** By agent, then by id. */
  let waiting = new Map<string, Map<string, ExplainedRefusalCount>>()
  let different = 0
  let timer: NodeJS.Timeout | undefined
  let writing: Promise<void> = Promise.resolve()
  let writtenAt = -Infinity

  /** Adds `why_url` to the rejection of a machine. Leaves other errors alone. */
  function note(error: unknown, caller: RefusedCaller): void {
    if (!(error instanceof CommandRejectedError) || error.details['why_url'] !== undefined) return
    if (caller.agentId === '') return
    const { rejected, code, details } = error
    const figures = Object.fromEntries(
      Object.entries(details).filter(([name]) => FIGURE.test(name)),
    )
    const { actor, event } = rejected
    const { agentId, keyId } = caller
    const equal = [agentId, keyId, code, actor.kind, actor.id, event.type, figures]
    const id = toUuid(hmacSha256(key, `refusal ${JSON.stringify(equal)}`))
    const at = Math.floor(clock.now())
    const before = waiting.get(agentId)?.get(id)
    if (before === undefined && different >= MAX_WAITING) return
    const data = before?.data ?? {
      ...explainMachineRejection(rejected),
      figures,
      detail: details.detail ?? error.message,
      call_id: details['call_id'] ?? (event as { callId?: unknown }).callId ?? null,
      request_id: caller.requestId,
    }
    const { firstAt = at, times = 0 } = before ?? {}
    keep({ id, agentId, keyId, code, data, firstAt, lastAt: at, times: times + 1 })
    details['why_url'] = `${publicUrl}/api/why/${id}`
    timer ??= setTimeout(() => void flush(), WRITE_MS).unref()
  }

  function keep(refusal: ExplainedRefusalCount): void {
    const { id, agentId } = refusal
    const own = waiting.get(agentId) ?? new Map<string, ExplainedRefusalCount>()
    waiting.set(agentId, own)
    if (!own.delete(id)) different += 1
    own.set(id, refusal)
    if (own.size <= LIMITS.explainedRefusals) return
    const [oldest = ''] = own.keys()
    own.delete(oldest)
    different -= 1
  }

  /** Writes what is waiting. Never rejects. */
  function flush(): Promise<void> {
    clearTimeout(timer)
    timer = undefined
    writing = writing
      .then(writeWaiting)
      .catch((error: unknown) => log('explanations of refusals not written', error))
    return writing
  }

  /** While a write is under way the next refusals wait, within their bounds. */
  async function writeWaiting(): Promise<void> {
    if (different === 0) return
    const refusals = [...waiting.values()].flatMap((own) => [...own.values()])
    waiting = new Map()
    different = 0
    writtenAt = clock.mono()
    await write(refusals)
  }

  /** Resolves when what was noted before is written. Readers cause no more than a write a second. */
  async function written(): Promise<void> {
    const since = writtenAt
    const rest = since + WRITE_MS - clock.mono()
    if (different > 0 && rest > 0) await pause(rest)
    return writtenAt === since ? flush() : writing
  }

  return { note, flush, written }
}
export type ExplainedRefusalRecorder = ReturnType<typeof createExplainedRefusalRecorder>

/** A UUID of version 8 (RFC 9562) from a hash. */
function toUuid(hash: Buffer): string {
  const bytes = Buffer.from(hash.subarray(0, 16))
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join('-')
}
