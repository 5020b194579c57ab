import { IdempotencyKeyAnsweredElsewhereError } from '../actors/aggregate-command-types.ts'
import { ServiceError, httpStatusOf } from '../core/errors.ts'
import { toProblemDocument } from '../core/problem-document.ts'
import { newUuidV7 } from '../core/ids-and-api-keys.ts'
import { createIdempotencySingleflight } from '../core/concurrency/idempotency-singleflight.ts'
import { asMicros, toUsdc, ZERO_MICROS } from '../core/money.ts'
import { listPaymentTerms } from '../payments/payment-offers.ts'
import { previewCallAdmission } from './call-admission.ts'
import type { AdmittedCall } from './admitted-call.ts'
import type {
  CallDeps,
  CallReply,
  CallRequest,
  CallService,
  EmitStreamEvent,
  OnStreamOpened,
  CallPriceQuote,
  ToolProgress,
} from './call-request-and-reply-types.ts'
import { toCallError } from './to-call-error.ts'
import {
  NOOP_CALL_OBSERVER,
  executeToolCall,
  replayStoredReply,
  type CallObserver,
} from './execute-tool-call.ts'
import { createToolCallBatchRunner } from './pipeline/tool-call-batch.ts'
import {
  loadNewlyRegisteredTool,
  preflightCall,
  assertNoBadKey,
  callPaymentOffer,
  parsePriceAndPreflightCall,
  parseAndPriceCall,
  type ValidatedPricedCall,
} from './parse-and-price-call.ts'
import { toTaskPassJson } from '../domain/prepaid-task-passes.ts'

/** The entry point of all calls: single, streamed and batched. */

type RunCall = (request: CallRequest) => Promise<CallReply>
type BeginStream = (replayed: boolean, about: object, headers?: CallReply['headers']) => void
type RunOnce = (request: CallRequest, run: RunCall) => Promise<CallReply>

/** Creates the call service, which all transports use. */
export function createCallService(parts: CallDeps): CallService {
  const once = createIdempotentRunner(parts)
  const refuel: CallService['refuel'] = (request, progress) =>
    once(request, (keyed) =>
      executeToolCall(
        parts,
        keyed,
        progress === undefined ? NOOP_CALL_OBSERVER : observeProgress(progress),
      ),
    )
  const pipeline = createToolCallBatchRunner(parts, (request) => refuel(request))
  return {
    refuel,
    async quote(request) {
      assertNoBadKey(request.caller)
      return quoteCall(parts, request)
    },
    async check(request) {
      assertNoBadKey(request.caller)
      await parsePriceAndPreflightCall(parts, request)
    },
    stream: (request, emit, opened) => streamToolCall(parts, once, request, emit, opened),
    pipeline: (request) => pipeline(request),
    streamPipeline: (request, emit, opened) =>
      streamFrames(parts, { ...request, tool: 'pipeline' }, emit, opened, (begin) =>
        pipeline(request, {
          onBegin: () => begin(false, { call_id: null, calls: request.calls.length }),
          onItem: (at, value) => emit('partial', { path: `/results/${at}`, value }),
        }),
      ),
  }
}

/** Steps reveal no output, so they need no durable hold. */
const observeProgress = (progress: (step: ToolProgress) => void): CallObserver => ({
  ...NOOP_CALL_OBSERVER,
  progress: (event) => {
    if (event.type === 'progress') progress(event)
  },
})

/** Returns the stored response of a repeated request; runs a new one. */
function createIdempotentRunner({ callLog, clock }: CallDeps): RunOnce {
  const alone = createIdempotencySingleflight<CallReply>()
  return (request, run) => {
    const { idempotency, caller } = request
    if (idempotency === null) return run(request)
    // The answers kept for an address are those of callers without a key (decision 8).
    if (caller.keyStatus === 'invalid') return run({ ...request, idempotency: null })
    const owner = caller.agentId ?? caller.visitorId
    const { key, hash } = idempotency
    const known = async () => {
      const lookedUpAt = clock.mono()
      const stored = await callLog.findAnswer(owner, key)
      if (stored !== null) return replayStoredReply(stored, hash)
      return run({ ...request, idempotency: { key, hash, lookedUpAt } }).catch((error: unknown) => {
        if (error instanceof IdempotencyKeyAnsweredElsewhereError)
          return replayStoredReply(error.stored, hash)
        throw error
      })
    }
    return alone(owner, key, hash, known, (reply) => ({ ...reply, replayed: true }))
  }
}

async function quoteCall(parts: CallDeps, request: CallRequest): Promise<CallPriceQuote> {
  await loadNewlyRegisteredTool(parts, request)
  const plan = withQuotedPrice(await parseAndPriceCall(parts, request))
  const early = await earlyRefusal(parts, plan)
  const { left, amount, refusal, pass } = await previewCallAdmission(
    parts,
    plan,
    newUuidV7(parts.clock.now()),
    early,
  )
  return {
    tool: plan.tool.slug,
    price_usdc: toUsdc(amount ?? plan.price ?? ZERO_MICROS),
    rail: amount === ZERO_MICROS ? 'free' : pass === null ? railOf(parts, plan) : 'pass',
    pass: pass === null ? null : toTaskPassJson(pass),
    free_calls_left: left,
    offers: amount === ZERO_MICROS ? [] : listPaymentTerms(callPaymentOffer(parts, plan)),
    would_refuse: refusal === null ? null : refusalView(refusal),
  }
}

/** A price that has risen is quoted at once; calls cost what was quoted before for a while. */
function withQuotedPrice(plan: ValidatedPricedCall): ValidatedPricedCall {
  const { community, price } = plan.tool
  if (community === undefined || typeof price === 'function' || plan.price === null) return plan
  if (community.isFreeFor(plan.request.caller)) return plan
  return { ...plan, price: asMicros(plan.price + community.quotedPrice - price) }
}

/** Statuses of input that cannot become a call. */
const BAD_INPUT: ReadonlySet<number> = new Set([400, 413, 422])

/** Returns the rejection that precedes all limits. Throws for invalid input. */
async function earlyRefusal(
  parts: CallDeps,
  plan: ValidatedPricedCall,
): Promise<ServiceError | null> {
  try {
    await preflightCall(parts, plan)
    return null
  } catch (error) {
    if (error instanceof ServiceError && !BAD_INPUT.has(httpStatusOf(error.code))) return error
    throw error
  }
}

/** `credits` with a key; `payment` without one if a payment is possible, else null. */
function railOf(parts: CallDeps, plan: ValidatedPricedCall): 'credits' | 'payment' | null {
  if (plan.request.caller.agentId !== null) return 'credits'
  return callPaymentOffer(parts, plan) === null ? null : 'payment'
}

/** The fields of a rejection in a quote. */
function refusalView({ code, details }: ServiceError): Record<string, unknown> {
  const { call_id: _none, ...rest } = details
  return { code, status: httpStatusOf(code), ...rest }
}

async function streamToolCall(
  parts: CallDeps,
  once: RunOnce,
  request: CallRequest,
  emit: EmitStreamEvent,
  opened: OnStreamOpened,
): Promise<void> {
  await streamFrames(parts, request, emit, opened, (begin) => {
    const watcher = {
      durable: true,
      admitted: ({ callId, paid }: AdmittedCall) =>
        begin(false, { call_id: callId }, settledBefore(parts, paid)),
      progress: ({ type, ...event }: { type: string }) => emit(type, event),
    }
    return once(request, (keyed) => executeToolCall(parts, keyed, watcher))
  })
}

/** Settlement headers that are known before the call runs. */
const settledBefore = ({ paying }: CallDeps, paid: AdmittedCall['paid']): CallReply['headers'] =>
  paid === null || paid.tx === null ? {} : paying.replyHeaders(paid.payment, paid.ref, paid.tx)

/** Adds headers that could not be sent before the result to `_meta`. */
function resultOf(
  { body, headers }: CallReply,
  sentHeaders: CallReply['headers'],
): CallReply['body'] {
  const late = Object.entries(headers).filter(([name]) => !(name in sentHeaders))
  if (late.length === 0) return body
  const fields = late.map(([name, value]) => [name.toLowerCase().replaceAll('-', '_'), value])
  return { ...body, _meta: { ...(body['_meta'] as object), ...Object.fromEntries(fields) } }
}

/**
 * Emits the frames of a stream. `work` calls `begin` when the stream can no longer be rejected as a
 * whole.
 */
async function streamFrames(
  parts: CallDeps,
  request: { readonly tool: string; readonly requestId: string },
  emit: EmitStreamEvent,
  opened: OnStreamOpened,
  work: (begin: BeginStream) => Promise<CallReply>,
): Promise<void> {
  let [open, sentHeaders] = [false, {}]
  const begin: BeginStream = (replayed, about, headers = {}) => {
    ;[open, sentHeaders] = [true, headers]
    opened(replayed, headers)
    emit('start', { tool: request.tool, ...about })
  }
  try {
    const reply = await work(begin)
    if (!open) begin(reply.replayed, { call_id: reply.callId || null }, reply.headers)
    emit(reply.status < 400 ? 'result' : 'error', resultOf(reply, sentHeaders))
  } catch (error) {
    if (!open) throw error
    emit(
      'error',
      toProblemDocument(
        toCallError(parts, 'stream failed', error),
        parts,
        `urn:request:${request.requestId}`,
      ),
    )
  }
  emit('done', {})
}
