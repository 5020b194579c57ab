import { AlreadyAnswered } from '../actors/command.ts'
import { problem, statusOf, type ServiceError } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { inFlight } from '../core/in-flight.ts'
import { toUsdc, ZERO } from '../core/money.ts'
import { outlook } from './admit.ts'
import type { Ticket } from './ticket.ts'
import type { CallParts, CallReply, CallRequest, Calls, Emit } from './calls.ts'
import { expected } from './expected.ts'
import { NOBODY, perform, replay } from './perform.ts'
import { pipelineOf } from './pipeline.ts'
import { planCall } from './plan.ts'

type Run = (request: CallRequest) => Promise<CallReply>
type Once = (request: CallRequest, run: Run) => Promise<CallReply>

/** The one way every call goes, through whichever door it came. */
export function callService(parts: CallParts): Calls {
  const once = repeatable(parts)
  const refuel = (request: CallRequest) => once(request, (asked) => perform(parts, asked, NOBODY))
  return {
    refuel,
    quote: (request) => quote(parts, request),
    stream: (request, emit, opened) => stream(parts, once, request, emit, opened),
    pipeline: pipelineOf(parts, refuel),
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

async function quote(parts: CallParts, request: CallRequest): Promise<Record<string, unknown>> {
  const plan = await planCall(parts, request)
  const { left, amount, refusal } = await outlook(parts, plan, newId(parts.clock.now()))
  return {
    tool: plan.tool.slug,
    price_usdc: toUsdc(amount ?? plan.price ?? ZERO),
    rail: amount === ZERO ? 'free' : 'credits',
    free_calls_left: left,
    would_refuse: refusal === null ? null : refusalView(refusal),
  }
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
  opened: (replayed: boolean) => void,
): Promise<void> {
  let open = false
  const begin = (ticket: Ticket | null) => {
    open = true
    opened(ticket === null)
    emit('start', { tool: request.tool, call_id: ticket?.callId ?? null })
  }
  const watcher = {
    durable: true,
    admitted: begin,
    progress: ({ type, ...event }: { type: string }) => emit(type, event),
  }
  try {
    const reply = await once(request, (asked) => perform(parts, asked, watcher))
    if (!open) begin(null)
    emit(reply.status < 400 ? 'result' : 'error', reply.body)
  } catch (error) {
    if (!open) throw error
    emit(
      'error',
      problem(
        expected(parts, 'stream failed', error),
        parts.publicUrl,
        `urn:request:${request.requestId}`,
      ),
    )
  }
  emit('done', {})
}
