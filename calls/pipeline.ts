import { invalid, problem, ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { inFlight } from '../core/in-flight.ts'
import { LIMITS } from '../core/limits.ts'
import type { CallParts, CallReply, CallRequest, PipelineRequest } from './calls.ts'
import { expected } from './expected.ts'
import { isPaid, paymentRequired, planCall } from './plan.ts'

interface Part {
  readonly tool: unknown
  readonly ok: boolean
  readonly result: unknown
  readonly cost_usdc: number
  readonly ms: number
  readonly error?: unknown
}

/** Calls side by side, each with a hold and an answer of its own. */
export function pipelineOf(parts: CallParts, refuel: (request: CallRequest) => Promise<CallReply>) {
  const alone = inFlight<CallReply>()

  async function one(request: CallRequest): Promise<Part & { replayed: boolean }> {
    const started = parts.clock.mono()
    const elapsed = () => Math.round(parts.clock.mono() - started)
    try {
      const { body, status, replayed } = await refuel(request)
      if (status >= 400) return { ...refused(request.tool, body, elapsed()), replayed }
      const { _meta: meta, ...result } = body as { _meta: { cost_usdc: number; ms: number } }
      const { cost_usdc, ms } = meta
      return {
        tool: request.tool,
        ok: true,
        result: { ...result, _meta: meta },
        cost_usdc,
        ms,
        replayed,
      }
    } catch (error) {
      // One part's failure is told in its place: the others may have been charged.
      const told = expected(parts, 'a call of a pipeline failed', error)
      const body = problem(told, parts.publicUrl, `urn:request:${request.requestId}`)
      return { ...refused(request.tool, body, elapsed()), replayed: false }
    }
  }

  async function run(requests: readonly CallRequest[]): Promise<CallReply> {
    const started = parts.clock.mono()
    const answered = await Promise.all(requests.map(one))
    const results = answered.map(({ replayed: _first, ...part }) => part)
    const succeeded = results.filter((part) => part.ok).length
    const body = {
      ok: succeeded === results.length,
      results,
      // Summed in micro-USDC, where sums are exact.
      total_cost_usdc:
        results.reduce((all, part) => all + Math.round(part.cost_usdc * 1e6), 0) / 1e6,
      total_ms: Math.round(parts.clock.mono() - started),
      parallel: true,
      succeeded,
      failed: results.length - succeeded,
    }
    const replayed = answered.every((part) => part.replayed)
    return { status: 200, body, headers: {}, replayed, callId: newId(parts.clock.now()) }
  }

  return async (request: PipelineRequest): Promise<CallReply> => {
    const requests = split(request)
    await demandKey(parts, requests)
    if (request.idempotency === null) return run(requests)
    const owner = request.caller.agentId ?? request.caller.visitorId
    const { key, hash } = request.idempotency
    const first = async () => {
      await demandSame(parts, owner, key, hash)
      return run(requests)
    }
    return alone(owner, key, hash, first, (reply) => ({ ...reply, replayed: true }))
  }
}

/** The key of one call of a pipeline: its answer is kept by itself. */
const keyOf = (key: string, at: number) => `pipeline:${key}:${at}`

/** Nothing of a batch runs under a key that an other batch has used. */
async function demandSame(
  parts: CallParts,
  owner: string,
  key: string,
  hash: string,
): Promise<void> {
  const places = Array.from({ length: LIMITS.pipelineCalls }, (_, at) => keyOf(key, at))
  const kept = await Promise.all(places.map((place) => parts.callLog.findAnswer(owner, place)))
  if (kept.some((answer) => answer !== null && answer.requestHash !== hash)) {
    throw new ServiceError('idempotency_key_reused')
  }
}

const refused = (tool: string, error: unknown, ms: number): Part => ({
  tool,
  ok: false,
  result: null,
  cost_usdc: 0,
  ms,
  error,
})

/** Each call repeats under a key of its own, so that a retry after a crash runs only what is missing. */
function split({ calls, idempotency, ...shared }: PipelineRequest): CallRequest[] {
  if (calls.length === 0 || calls.length > LIMITS.pipelineCalls) {
    throw invalid('/calls', `must hold 1 to ${LIMITS.pipelineCalls} calls`)
  }
  return calls.map((body, at) => {
    if (typeof body['tool'] !== 'string') throw invalid(`/calls/${at}/tool`, 'is required')
    if ('dry_run' in body)
      throw invalid(`/calls/${at}/dry_run`, 'is not for batches: ask /api/quote')
    const own = idempotency === null ? null : { ...idempotency, key: keyOf(idempotency.key, at) }
    return { ...shared, tool: body['tool'], body, idempotency: own }
  })
}

/** Without a key nothing of a batch runs that has a paid tool in it (spec 4.1). */
async function demandKey(parts: CallParts, requests: readonly CallRequest[]): Promise<void> {
  for (const request of requests) {
    if (request.caller.agentId !== null) return
    const plan = await planCall(parts, request).catch(() => null)
    if (plan !== null && isPaid(plan)) throw paymentRequired(parts, plan, newId(parts.clock.now()))
  }
}
