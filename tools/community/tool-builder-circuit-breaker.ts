import { SECOND, type Clock } from '../../core/clock.ts'
import { createNodeRateLimiter } from '../../core/concurrency/node-rate-limiter.ts'
import { ServiceError } from '../../core/errors.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { LIMITS } from '../../core/limits.ts'
import type { CommunityToolRecord } from '../../domain/community-tool-record.ts'
import type { CommunityCallForwarder } from './forward-community-tool-call.ts'

/**
 * Stops calls to a builder that fails: callers wait for nothing, and the builder can recover. One call with the
 * builder's own example finds out whether it answers again. It also bounds what runs at once, and refunds for
 * input that the builder refuses.
 */

const FAILURES_TO_OPEN = 5
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

interface ToolHealth {
  /** When the last calls failed. */
  failures: number[]
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
  const inFlight = new Map<string, number>()
  const callerErrors = createNodeRateLimiter(clock, {
    name: 'builder_refusals',
    subject: 'calls of a tool that its builder refuses',
    max: LIMITS.communityCallerErrorsPerHour,
    per: 'caller',
    windowSeconds: 3_600,
  })

  /** A proof of another endpoint starts over. */
  const keyOf = ({ slug, measuredFrom }: CommunityToolRecord) => `${slug} ${measuredFrom}`

  function recordFailure(tool: CommunityToolRecord): void {
    const key = keyOf(tool)
    const known = tools.get(key) ?? { failures: [], openUntil: null, isProbed: false }
    const now = clock.mono()
    known.failures = [...known.failures.filter((at) => at > now - FAILURE_WINDOW_MS), now]
    if (known.failures.length >= FAILURES_TO_OPEN) known.openUntil = now + OPEN_MS
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

  const unavailable = ({ slug }: CommunityToolRecord, waitMs: number): ServiceError =>
    new ServiceError('tool_unavailable', {
      tool: slug,
      retry_after: Math.max(1, Math.ceil(waitMs / SECOND)),
    })

  return {
    async assertReachable(tool, callerId) {
      callerErrors.assertWithinLimit(`${callerId} ${tool.slug}`)
      if ((inFlight.get(tool.builderId) ?? 0) >= LIMITS.communityCallsInFlight)
        throw unavailable(tool, SECOND)
      const health = tools.get(keyOf(tool))
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
      if (answers) tools.delete(keyOf(tool))
      else {
        health.openUntil = clock.mono() + OPEN_MS
        throw unavailable(tool, OPEN_MS)
      }
    },

    async forward(tool, call) {
      const { builderId } = tool
      inFlight.set(builderId, (inFlight.get(builderId) ?? 0) + 1)
      try {
        const outcome = await send(tool, call)
        if (outcome.ok) tools.delete(keyOf(tool))
        else if (outcome.isCallersFault) callerErrors.recordHit(`${call.callerId} ${tool.slug}`)
        else recordFailure(tool)
        return outcome
      } finally {
        const left = (inFlight.get(builderId) ?? 1) - 1
        if (left === 0) inFlight.delete(builderId)
        else inFlight.set(builderId, left)
      }
    },
  }
}
