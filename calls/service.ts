import { AlreadyAnswered } from '../actors/command.ts'
import { problem, ServiceError, statusOf } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { inFlight } from '../core/in-flight.ts'
import { toUsdc, ZERO } from '../core/money.ts'
import { outlook } from './admit.ts'
import type { Ticket } from './ticket.ts'
import type { CallParts, CallReply, CallRequest, Calls, Emit, Opened, Quote } from './calls.ts'
import { expected } from './expected.ts'
import { NOBODY, perform, replay } from './perform.ts'
import { pipelineOf } from './pipeline.ts'
import { checkPlan, offerOf, planCall, readCall, type Plan } from './plan.ts'

type Run = (request: CallRequest) => Promise<CallReply>
type Begin = (replayed: boolean, about: object, headers?: CallReply['headers']) => void
type Once = (request: CallRequest, run: Run) => Promise<CallReply>

/** The one way every call goes, through whichever door it came. */
export function callService(parts: CallParts): Calls {
  const once = repeatable(parts)
  const refuel = (request: CallRequest) => once(request, (asked) => perform(parts, asked, NOBODY))
  const pipeline = pipelineOf(parts, refuel)
  return {
    refuel,
    quote: (request) => quote(parts, request),
    async check(request) {
      await planCall(parts, request)
    },
    stream: (request, emit, opened) => stream(parts, once, request, emit, opened),
    pipeline: (request) => pipeline(request),
    streamPipeline: (request, emit, opened) =>
      streamed(parts, { ...request, tool: 'pipeline' }, emit, opened, (begin) =>
        pipeline(request, {
          begun: () => begin(false, { call_id: null, calls: request.calls.length }),
          part: (at, value) => emit('partial', { path: `/results/${at}`, value }),
        }),
      ),
  }
}

/** Answers a repeated request with the first answer; runs a new one. */
function repeatable({ callLog, clock }: CallParts): Once {
  const alone = inFlight<CallReply>()
  return (request, run) => {
    const { idempotency, caller } = request
    if (idempotency === null) return run(request)
    const owner = caller.agentId ?? caller.visitorId
    const { key, hash } = idempotency
    const known = async () => {
      const lookedUpAt = clock.mono()
      const stored = await callLog.findAnswer(owner, key)
      if (stored !== null) return replay(stored, hash)
      return run({ ...request, idempotency: { key, hash, lookedUpAt } }).catch((error: unknown) => {
        if (error instanceof AlreadyAnswered) return replay(error.stored, hash)
        throw error
      })
    }
    return alone(owner, key, hash, known, (reply) => ({ ...reply, replayed: true }))
  }
}

async function quote(parts: CallParts, request: CallRequest): Promise<Quote> {
  const plan = readCall(parts, request)
  const early = await earlyRefusal(parts, plan)
  const { left, amount, refusal } = await outlook(parts, plan, newId(parts.clock.now()), early)
  return {
    tool: plan.tool.slug,
    price_usdc: toUsdc(amount ?? plan.price ?? ZERO),
    rail: amount === ZERO ? 'free' : railOf(parts, plan),
    free_calls_left: left,
    would_refuse: refusal === null ? null : refusalView(refusal),
  }
}

/** Statuses of input that no call could be made of. */
const BAD_INPUT: ReadonlySet<number> = new Set([400, 413, 422])

/** Why the call would be refused before its limits are asked; bad input is refused here and now. */
async function earlyRefusal(parts: CallParts, plan: Plan): Promise<ServiceError | null> {
  try {
    await checkPlan(parts, plan)
    return null
  } catch (error) {
    if (error instanceof ServiceError && !BAD_INPUT.has(statusOf(error.code))) return error
    throw error
  }
}

/** With a key its credits; without one `payment`, which the 402 of the call details, where one is taken. */
function railOf(parts: CallParts, plan: Plan): 'credits' | 'payment' | null {
  if (plan.request.caller.agentId !== null) return 'credits'
  return offerOf(parts, plan) === null ? null : 'payment'
}

/** Fields of a refusal that help to act before it happens. */
function refusalView({ code, details }: ServiceError): Record<string, unknown> {
  const { call_id: _none, ...rest } = details
  return { code, status: statusOf(code), ...rest }
}

async function stream(
  parts: CallParts,
  once: Once,
  request: CallRequest,
  emit: Emit,
  opened: Opened,
): Promise<void> {
  await streamed(parts, request, emit, opened, (begin) => {
    const watcher = {
      durable: true,
      admitted: ({ callId, paid }: Ticket) =>
        begin(false, { call_id: callId }, settledBefore(parts, paid)),
      progress: ({ type, ...event }: { type: string }) => emit(type, event),
    }
    return once(request, (asked) => perform(parts, asked, watcher))
  })
}

/** What is known of a payment before its call runs: that it has settled, or nothing yet. */
const settledBefore = ({ paying }: CallParts, paid: Ticket['paid']): CallReply['headers'] =>
  paid === null || paid.tx === null ? {} : paying.replyHeaders(paid.payment, paid.ref, paid.tx)

/** A result with the headers of its answer that could not leave before it, as fields of `_meta`. */
function resultOf({ body, headers }: CallReply, told: CallReply['headers']): CallReply['body'] {
  const late = Object.entries(headers).filter(([name]) => !(name in told))
  if (late.length === 0) return body
  const fields = late.map(([name, value]) => [name.toLowerCase().replaceAll('-', '_'), value])
  return { ...body, _meta: { ...(body['_meta'] as object), ...Object.fromEntries(fields) } }
}

/** The frames of a stream around its work, which says when it can be refused as a whole no more. */
async function streamed(
  parts: CallParts,
  request: { readonly tool: string; readonly requestId: string },
  emit: Emit,
  opened: Opened,
  work: (begin: Begin) => Promise<CallReply>,
): Promise<void> {
  let [open, told] = [false, {}]
  const begin: Begin = (replayed, about, headers = {}) => {
    ;[open, told] = [true, headers]
    opened(replayed, headers)
    emit('start', { tool: request.tool, ...about })
  }
  try {
    const reply = await work(begin)
    if (!open) begin(reply.replayed, { call_id: reply.callId || null }, reply.headers)
    emit(reply.status < 400 ? 'result' : 'error', resultOf(reply, told))
  } catch (error) {
    if (!open) throw error
    emit(
      'error',
      problem(expected(parts, 'stream failed', error), parts, `urn:request:${request.requestId}`),
    )
  }
  emit('done', {})
}
