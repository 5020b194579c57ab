import { invalid, problem, ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { inFlight } from '../core/in-flight.ts'
import { LIMITS } from '../core/limits.ts'
import type { CallParts, CallReply, CallRequest, PipelineRequest } from './calls.ts'
import { expected } from './expected.ts'
import { basketOf, basketUnpaid, boughtBefore, paidBatch } from './paid-batch.ts'
import { withoutPayment, type Basket } from './paid-batch.ts'
import { answeredPart, batchBody, refused, type Part } from './parts.ts'
import { isPaid, planCall, type Plan } from './plan.ts'

/** Hears of a batch while it runs. */
export interface BatchWatcher {
  /** Nothing refuses the batch as a whole any more. */
  begun(): void
  /** A call of it has been answered, at its place. */
  part(at: number, part: Part): void
}
const ALONE: BatchWatcher = { begun() {}, part() {} }

/** Calls side by side, each with a hold and an answer of its own. */
export function pipelineOf(parts: CallParts, refuel: (request: CallRequest) => Promise<CallReply>) {
  const alone = inFlight<CallReply>()

  async function one(request: CallRequest): Promise<Part & { replayed: boolean }> {
    const started = parts.clock.mono()
    const elapsed = () => Math.round(parts.clock.mono() - started)
    try {
      const { body, status, replayed } = await refuel(request)
      if (status >= 400) return { ...refused(request.tool, body, elapsed()), replayed }
      return { ...answeredPart(request.tool, body), replayed }
    } catch (error) {
      // One part's failure is told in its place: the others may have been charged.
      const told = expected(parts, 'a call of a pipeline failed', error)
      const body = problem(told, parts, `urn:request:${request.requestId}`)
      return { ...refused(request.tool, body, elapsed()), replayed: false }
    }
  }

  async function run(requests: readonly CallRequest[], watcher: BatchWatcher): Promise<CallReply> {
    const started = parts.clock.mono()
    watcher.begun()
    // A payment is for one call or for a whole batch: here each call is paid from credits.
    const answered = await Promise.all(
      requests.map(async (request, at) => {
        const { replayed, ...part } = await one(withoutPayment(request))
        watcher.part(at, part)
        return { replayed, part }
      }),
    )
    const results = answered.map(({ part }) => part)
    const body = batchBody(results, Math.round(parts.clock.mono() - started))
    const replayed = answered.every((one) => one.replayed)
    return { status: 200, body, headers: {}, replayed, callId: newId(parts.clock.now()) }
  }

  /** Nothing of it runs before it is paid for; one payment buys all of it. */
  async function buy(basket: Basket, requests: readonly CallRequest[]): Promise<CallReply> {
    const [{ door }] = requests as [CallRequest]
    if (!parts.paying.brings(door)) throw basketUnpaid(parts, basket, door.path)
    const free = async (request: CallRequest): Promise<Part> => {
      const { replayed: _first, ...part } = await one(request)
      return part
    }
    return paidBatch(parts, basket, requests, free)
  }

  return async (request: PipelineRequest, watcher: BatchWatcher = ALONE): Promise<CallReply> => {
    const requests = split(request)
    const basket = await keylessBasket(parts, requests)
    if (basket !== null) return buy(basket, requests)
    const before = request.caller.agentId === null ? await boughtBefore(parts, request.door) : null
    if (before !== null) return before
    if (request.idempotency === null) return run(requests, watcher)
    const owner = request.caller.agentId ?? request.caller.visitorId
    const { key, hash } = request.idempotency
    const first = async () => {
      await demandSame(parts, owner, key, hash)
      return run(requests, watcher)
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

/** What a batch without a key has to buy; null where there is a key, or nothing to pay for. */
async function keylessBasket(
  parts: CallParts,
  requests: readonly CallRequest[],
): Promise<Basket | null> {
  if (requests.some(({ caller }) => caller.agentId !== null)) return null
  const plans = await Promise.all(
    requests.map((request) => planCall(parts, request).catch(() => null)),
  )
  const priced = plans.map((plan) => (plan !== null && isPaid(plan) ? plan : null))
  assertReadOnly(priced)
  return priced.every((plan) => plan === null) ? null : basketOf(priced)
}

/**
 * A batch that a payment buys is delivered whole or given back whole, whichever of its calls fails: what
 * one of them has done outside cannot be given back (decision 151).
 */
function assertReadOnly(priced: readonly (Plan | null)[]): void {
  const at = priced.findIndex((plan) => plan?.tool.effect === 'external')
  const slug = priced[at]?.tool.slug
  if (slug !== undefined)
    throw invalid(
      `/calls/${at}/tool`,
      `${slug} acts outside and cannot be bought in a batch: call it alone, or with an API key`,
    )
}
