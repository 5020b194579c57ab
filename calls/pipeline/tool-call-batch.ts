import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { toProblemDocument } from '../../core/problem-document.ts'
import { newUuidV7 } from '../../core/ids-and-api-keys.ts'
import { createIdempotencySingleflight } from '../../core/concurrency/idempotency-singleflight.ts'
import { LIMITS } from '../../core/limits.ts'
import type {
  CallDeps,
  CallReply,
  CallRequest,
  ToolCallBatchRequest,
} from '../call-request-and-reply-types.ts'
import { toCallError } from '../to-call-error.ts'
import {
  toPricedToolCallBatch,
  createToolCallBatchPaymentRequiredError,
  findPurchasedToolCallBatch,
  executePaidToolCallBatch,
} from './keyless-paid-tool-call-batch.ts'
import { withoutPaymentHeaders, type PricedToolCallBatch } from './keyless-paid-tool-call-batch.ts'
import {
  succeededToolCallBatchItem,
  toolCallBatchResultBody,
  failedToolCallBatchItem,
  type ToolCallBatchItemResult,
} from './tool-call-batch-result.ts'
import {
  assertNoBadKey,
  isPricedWithoutFreeQuota,
  parsePriceAndPreflightCall,
  type ValidatedPricedCall,
} from '../parse-and-price-call.ts'

/** Observes a running batch. */
export interface ToolCallBatchObserver {
  /** The batch can no longer be rejected as a whole. */
  onBegin(): void
  /** A call has finished; `at` is its index. */
  onItem(at: number, item: ToolCallBatchItemResult): void
}
const NOOP_PIPELINE_OBSERVER: ToolCallBatchObserver = { onBegin() {}, onItem() {} }

/** Runs calls in parallel, each with its own hold and response. */
export function createToolCallBatchRunner(
  parts: CallDeps,
  refuel: (request: CallRequest) => Promise<CallReply>,
) {
  const alone = createIdempotencySingleflight<CallReply>()

  async function one(
    request: CallRequest,
  ): Promise<ToolCallBatchItemResult & { replayed: boolean }> {
    const started = parts.clock.mono()
    const elapsed = () => Math.round(parts.clock.mono() - started)
    try {
      const { body, status, replayed } = await refuel(request)
      if (status >= 400)
        return { ...failedToolCallBatchItem(request.tool, body, elapsed()), replayed }
      return { ...succeededToolCallBatchItem(request.tool, body), replayed }
    } catch (error) {
      // Failures are reported per call: other calls may have been charged.
      const failure = toCallError(parts, 'a call of a pipeline failed', error)
      const body = toProblemDocument(failure, parts, `urn:request:${request.requestId}`)
      return { ...failedToolCallBatchItem(request.tool, body, elapsed()), replayed: false }
    }
  }

  async function run(
    requests: readonly CallRequest[],
    watcher: ToolCallBatchObserver,
  ): Promise<CallReply> {
    const started = parts.clock.mono()
    watcher.onBegin()
    // A payment buys one call or a whole batch. Here each call is paid from credits.
    const answered = await Promise.all(
      requests.map(async (request, at) => {
        const { replayed, ...item } = await one(withoutPaymentHeaders(request))
        watcher.onItem(at, item)
        return { replayed, item }
      }),
    )
    const results = answered.map(({ item }) => item)
    const body = toolCallBatchResultBody(results, Math.round(parts.clock.mono() - started))
    const replayed = answered.every((one) => one.replayed)
    return { status: 200, body, headers: {}, replayed, callId: newUuidV7(parts.clock.now()) }
  }

  /** Runs only after payment; one payment buys the whole batch. */
  async function buy(
    priced: PricedToolCallBatch,
    requests: readonly CallRequest[],
  ): Promise<CallReply> {
    const [{ door }] = requests as [CallRequest]
    if (door.paymentHeader === null)
      throw createToolCallBatchPaymentRequiredError(parts, priced, door.path)
    const free = async (request: CallRequest): Promise<ToolCallBatchItemResult> => {
      const { replayed: _first, ...item } = await one(request)
      return item
    }
    return executePaidToolCallBatch(parts, priced, requests, free)
  }

  return async (
    request: ToolCallBatchRequest,
    watcher: ToolCallBatchObserver = NOOP_PIPELINE_OBSERVER,
  ): Promise<CallReply> => {
    const requests = splitPipeline(request)
    const priced = await priceKeylessPipeline(parts, requests)
    if (priced !== null) return buy(priced, requests)
    const before =
      request.caller.agentId === null ? await findPurchasedToolCallBatch(parts, request.door) : null
    if (before !== null) return before
    assertNoBadKey(request.caller)
    if (request.idempotency === null) return run(requests, watcher)
    const owner = request.caller.agentId ?? request.caller.visitorId
    const { key, hash } = request.idempotency
    const first = async () => {
      await assertSamePipeline(parts, owner, key, hash)
      return run(requests, watcher)
    }
    return alone(owner, key, hash, first, (reply) => ({ ...reply, replayed: true }))
  }
}

/** The idempotency key of one call: its response is stored separately. */
const pipelineItemKey = (key: string, at: number) => `pipeline:${key}:${at}`

/** Throws when another batch has used the key. */
async function assertSamePipeline(
  parts: CallDeps,
  owner: string,
  key: string,
  hash: string,
): Promise<void> {
  const places = Array.from({ length: LIMITS.pipelineCalls }, (_, at) => pipelineItemKey(key, at))
  const kept = await Promise.all(places.map((place) => parts.callLog.findAnswer(owner, place)))
  if (kept.some((answer) => answer !== null && answer.requestHash !== hash)) {
    throw new ServiceError('idempotency_key_reused')
  }
}

/** Gives each call its own key, so that a retry after a crash runs only missing calls. */
function splitPipeline({ calls, idempotency, ...shared }: ToolCallBatchRequest): CallRequest[] {
  if (calls.length === 0 || calls.length > LIMITS.pipelineCalls) {
    throw invalidInputError('/calls', `must hold 1 to ${LIMITS.pipelineCalls} calls`)
  }
  return calls.map((body, at) => {
    if (typeof body['tool'] !== 'string')
      throw invalidInputError(`/calls/${at}/tool`, 'is required')
    if ((body['dry_run'] ?? null) !== null)
      throw invalidInputError(`/calls/${at}/dry_run`, 'is not for batches: ask /api/quote')
    const own =
      idempotency === null ? null : { ...idempotency, key: pipelineItemKey(idempotency.key, at) }
    return { ...shared, tool: body['tool'], body, idempotency: own }
  })
}

/** The priced calls of a keyless batch; null with a key or when all are free. */
async function priceKeylessPipeline(
  parts: CallDeps,
  requests: readonly CallRequest[],
): Promise<PricedToolCallBatch | null> {
  if (requests.some(({ caller }) => caller.agentId !== null)) return null
  const plans = await Promise.all(
    requests.map((request) => parsePriceAndPreflightCall(parts, request).catch(() => null)),
  )
  const priced = plans.map((plan) =>
    plan !== null && isPricedWithoutFreeQuota(plan) ? plan : null,
  )
  assertReadOnly(priced)
  return priced.every((plan) => plan === null) ? null : toPricedToolCallBatch(priced)
}

/**
 * A paid batch is delivered or refunded as a whole, but external effects cannot be undone (decision
 * 151).
 */
function assertReadOnly(priced: readonly (ValidatedPricedCall | null)[]): void {
  const at = priced.findIndex((plan) => plan?.tool.effect === 'external')
  const tool = priced[at]?.tool
  if (tool === undefined) return
  const why =
    tool.community === undefined
      ? 'acts outside'
      : 'is sold by another agent, whose work cannot be given back,'
  throw invalidInputError(
    `/calls/${at}/tool`,
    `${tool.slug} ${why} and cannot be bought in a batch: call it alone, or with an API key`,
  )
}
