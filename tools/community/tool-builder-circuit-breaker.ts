import { SECOND, type Clock } from '../../core/clock.ts'
import { createNodeRateLimiter } from '../../core/concurrency/node-rate-limiter.ts'
import { ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import type { CommunityToolRecord } from '../../domain/community-tool-record.ts'
import type { CommunityCallForwarder } from './forward-community-tool-call.ts'

/**
 * Stops calls to a builder that fails: callers wait for nothing, and the builder can recover. A caller whose calls
 * fail is refused by itself, since its input may be the cause; all are refused when the calls of several payers
 * have failed (decision 362). One call with the builder's own example finds out whether it answers again. It also
 * bounds what runs at once, and refunds for input that the builder refuses.
 */

const FAILURES_TO_OPEN = 5
/** Payers whose calls must have failed before others are refused. */
const FAILING_PAYERS_TO_OPEN = 3
const FAILURE_WINDOW_MS = 60 * SECOND
const OPEN_MS = 30 * SECOND
/** The station itself, as the builder sees it. */
const PROBE_CALLER = 'station'
/** Tools whose failures are remembered; the oldest are forgotten. */
const MAX_TOOLS = 10_000

export interface ToolBuilderCircuitBreaker {
  /** Throws `tool_unavailable` or `rate_limited` if a call would be in vain. May call the builder with its example. */
  assertReachable(tool: CommunityToolRecord, callerId: string): Promise<void>
  /** Sends a call and remembers how it went. */
  readonly forward: CommunityCallForwarder
}

/** Of a tool for one caller, or for all. */
interface ToolHealth {
  /** When the last calls failed, and whose. */
  failures: { readonly at: number; readonly callerId: string }[]
  /** Calls are refused until then; null while they are sent. */
  openUntil: number | null
  isProbed: boolean
}

export interface ToolBuilderCircuitBreakerDeps {
  readonly clock: Pick<Clock, 'mono' | 'now'>
  readonly send: CommunityCallForwarder
  /** The time of a whole call. */
  readonly callMs: number
}

export function createToolBuilderCircuitBreaker({
  clock,
  send,
  callMs,
}: ToolBuilderCircuitBreakerDeps): ToolBuilderCircuitBreaker {
  const tools = new Map<string, ToolHealth>()
  const inFlight = createCountByKey()
  const callerErrors = createNodeRateLimiter(clock, {
    name: 'builder_refusals',
    subject: 'calls of a tool that its builder refuses',
    max: LIMITS.communityCallerErrorsPerHour,
    per: 'caller',
    windowSeconds: 3_600,
  })

  /** A proof of another endpoint starts over. */
  const keyOf = ({ slug, measuredFrom }: CommunityToolRecord) => `${slug} ${measuredFrom}`

  /** For all callers, then for this one. */
  const keysOf = (tool: CommunityToolRecord, callerId: string) =>
    [keyOf(tool), `${keyOf(tool)} ${callerId}`] as const

  function recordFailure(tool: CommunityToolRecord, callerId: string): void {
    const [all, own] = keysOf(tool, callerId)
    addFailure(own, callerId, (failures) => failures.length >= FAILURES_TO_OPEN)
    addFailure(all, callerId, (failures) => {
      const payers = new Set(failures.map((failure) => failure.callerId))
      return failures.length >= FAILURES_TO_OPEN && payers.size >= FAILING_PAYERS_TO_OPEN
    })
  }

  function addFailure(
    key: string,
    callerId: string,
    isBad: (failures: ToolHealth['failures']) => boolean,
  ): void {
    const known = tools.get(key) ?? { failures: [], openUntil: null, isProbed: false }
    const now = clock.mono()
    const recent = known.failures.filter(({ at }) => at > now - FAILURE_WINDOW_MS)
    // Of one caller no more than it needs: memory does not grow with its calls.
    const others = recent.filter((failure) => failure.callerId !== callerId)
    const its = recent.filter((failure) => failure.callerId === callerId)
    known.failures = [...others, ...its.slice(1 - FAILURES_TO_OPEN), { at: now, callerId }]
    if (isBad(known.failures)) known.openUntil = now + OPEN_MS
    tools.delete(key)
    tools.set(key, known)
    if (tools.size > MAX_TOOLS) tools.delete(tools.keys().next().value ?? '')
  }

  /** Half open: one call with the example, while which other callers are refused. */
  async function probe(
    tool: CommunityToolRecord,
    example: Readonly<Record<string, unknown>>,
  ): Promise<boolean> {
    const signal = AbortSignal.timeout(callMs + SECOND)
    const callId = newUuidV7(clock.now())
    const call = { callId, callerId: PROBE_CALLER, input: { ...example }, signal }
    return send(tool, call).then(
      // A refusal of the input is an answer too.
      (outcome) => outcome.ok || outcome.isCallersFault,
      () => false,
    )
  }

  async function assertClosed(key: string, tool: CommunityToolRecord): Promise<void> {
    const health = tools.get(key)
    if (health === undefined || health.openUntil === null) return
    const wait = health.openUntil - clock.mono()
    if (wait > 0) throw unavailable(tool, wait)
    const { example } = tool.definition
    // Nobody else waits for an example that may hang.
    if (health.isProbed) throw unavailable(tool, SECOND)
    // Without an example this call finds out; others are refused meanwhile.
    if (example === null) {
      health.openUntil = clock.mono() + callMs
      return
    }
    health.isProbed = true
    const answers = await probe(tool, example)
    health.isProbed = false
    if (answers) tools.delete(key)
    else {
      health.openUntil = clock.mono() + OPEN_MS
      throw unavailable(tool, OPEN_MS)
    }
  }

  const unavailable = ({ slug }: CommunityToolRecord, waitMs: number): ServiceError =>
    new ServiceError('tool_unavailable', {
      tool: slug,
      retry_after: Math.max(1, Math.ceil(waitMs / SECOND)),
    })

  return {
    async assertReachable(tool, callerId) {
      callerErrors.assertWithinLimit(`${callerId} ${tool.slug}`)
      const own = inFlight.of(`${tool.builderId} ${callerId}`)
      if (own >= LIMITS.communityCallsInFlightPerCaller) throw unavailable(tool, SECOND)
      if (inFlight.of(tool.builderId) >= LIMITS.communityCallsInFlight)
        throw unavailable(tool, SECOND)
      for (const key of keysOf(tool, callerId)) await assertClosed(key, tool)
    },

    async forward(tool, call) {
      const { callerId } = call
      const running = [tool.builderId, `${tool.builderId} ${callerId}`]
      for (const key of running) inFlight.add(key, 1)
      try {
        const outcome = await send(tool, call)
        if (outcome.ok) for (const key of keysOf(tool, callerId)) tools.delete(key)
        else if (outcome.isCallersFault) callerErrors.recordHit(`${callerId} ${tool.slug}`)
        else recordFailure(tool, callerId)
        return outcome
      } finally {
        for (const key of running) inFlight.add(key, -1)
      }
    },
  }
}

/** Counts by key; a count of zero takes no memory. */
function createCountByKey() {
  const counts = new Map<string, number>()
  const of = (key: string): number => counts.get(key) ?? 0
  return {
    of,
    add(key: string, by: number): void {
      const next = of(key) + by
      if (next === 0) counts.delete(key)
      else counts.set(key, next)
    },
  }
}
