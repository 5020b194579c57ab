import type { ActorSystem, CommandContext } from '../actors/command.ts'
import type { Clock } from '../core/clock.ts'
import type { ServiceError } from '../core/errors.ts'
import type { ApiKeyTerms } from '../domain/api-key-terms.ts'
import type { Micros } from '../core/money.ts'
import type { CallRow, IdempotentResponse } from '../core/commit-rows.ts'
import type { PaymentContext, PaymentService } from '../payments/payment-service-types.ts'
import type { ToolCatalogue } from '../tools/catalogue.ts'
import type { ToolPorts } from '../tools/tool-ports.ts'
import type { FailedCallLimiter } from './failed-call-limiter.ts'
import type { BackpackRefusalLog } from './backpack-refusal-log.ts'
import type { JsonFields } from './tool-input.ts'

export type GhostMode = 'off' | 'stealth' | 'observe'

/** Whoever calls, as the door has verified it. */
export interface Caller {
  readonly agentId: string | null
  readonly key: ApiKeyTerms | null
  readonly keyStatus: 'none' | 'valid' | 'invalid'
  /** The address (IPv6: its /64) as a pseudonym: whose free calls are counted. */
  readonly visitorId: string
  /** The /48 of an IPv6 address, in the same way; null for any other. */
  readonly siteId: string | null
}

export interface CallIdempotency {
  readonly key: string
  readonly hash: string
  /** When the key was looked up (`clock.mono()`); absent at the door. */
  readonly lookedUpAt?: number
}

/** One request for one tool. */
export interface CallRequest {
  readonly tool: string
  /** The tool's fields. */
  readonly body: Record<string, unknown>
  readonly caller: Caller
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly ghost: GhostMode
  readonly idempotency: CallIdempotency | null
  /** How the request came in, with the payment it may bring. */
  readonly door: PaymentContext
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal
  readonly requestId: string
  /**
   * Asked when nothing refuses the call by itself any more and nothing is held yet: rejects where its
   * caller begins too many. What it answers takes the turn back.
   */
  readonly takeRateToken?: (tool: string) => Promise<() => Promise<void>>
  /** The schedule that makes it; absent when a caller does. */
  readonly run?: ScheduledRun
}

/** A call that a schedule makes: no address, so no free calls of one, and a price of its own. */
export interface ScheduledRun {
  readonly scheduleId: string
  /** What it costs beside its tool. */
  readonly fee: Micros
  /** What it may cost in all. */
  readonly budget: Micros
  /** Joins the commit that ends the call. What it refuses is not charged. */
  onEnded(ctx: CommandContext, ending: CallOutcome): void
}

/** How a call has ended: with its output, or with an error. */
export interface CallOutcome {
  readonly call: CallRow
  readonly output: JsonFields | null
  readonly error: ServiceError | null
}

export interface CallReply {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly headers: Record<string, string>
  /** The stored answer to an earlier request with this Idempotency-Key. */
  readonly replayed: boolean
  readonly callId: string
}

export type EmitStreamEvent = (event: string, data: unknown) => void
/** A stream begins; the headers are those of its answer that are known by then. */
export type OnStreamOpened = (replayed: boolean, headers?: CallReply['headers']) => void

export interface PipelineRequest extends Omit<CallRequest, 'tool' | 'body'> {
  readonly calls: readonly Record<string, unknown>[]
}

/** What a call would cost, and what would refuse it; a type, so that it is a body like any other. */
export type CallPriceQuote = {
  readonly tool: string
  readonly price_usdc: number
  /** `payment`: without a key, on any rail that the 402 of the call offers; null where there is none. */
  readonly rail: 'free' | 'credits' | 'payment' | null
  readonly free_calls_left: number | null
  /** The problem the call would answer with. */
  readonly would_refuse: Record<string, unknown> | null
}

/** The way of a call (ARCHITECTURE.md): quote, admit, run, settle, reply. */
export interface CallService {
  /** Rejects with a ServiceError; nothing is charged then, unless `unavailable` says it is not known. */
  refuel(request: CallRequest): Promise<CallReply>
  /** What the call would cost, by which rail, and which limit would refuse it. Holds nothing. */
  quote(request: CallRequest): Promise<CallPriceQuote>
  /** Refuses what the call would be refused for by what it asks; nothing is held, run or charged. */
  check(request: CallRequest): Promise<void>
  /** Rejects until `opened` was called; later failures are emitted as `error`, then `done`. */
  stream(request: CallRequest, emit: EmitStreamEvent, opened: OnStreamOpened): Promise<void>
  /** Up to ten calls side by side; one that fails gives its own money back. */
  pipeline(request: PipelineRequest): Promise<CallReply>
  /**
   * The same as a stream: each call as a `partial` when it is answered, the whole as the `result`. A
   * batch bought by a payment has no partials: none of it is delivered before all of it.
   */
  streamPipeline(
    request: PipelineRequest,
    emit: EmitStreamEvent,
    opened: OnStreamOpened,
  ): Promise<void>
}

/** An entry of the Hive beside a result: enough to know whether to read it. */
export interface HiveExcerpt {
  readonly id: string
  readonly excerpt: string
  readonly namespace: string
  readonly confidence: number
  readonly agent_id: string
  readonly created_at: string
}

/** What the public Hive knows about a text; answers from its cache where it can. */
export type HiveLookup = (text: string) => Promise<readonly HiveExcerpt[]>

export interface CallDeps {
  readonly clock: Clock
  readonly actors: ActorSystem
  readonly catalogue: ToolCatalogue
  /** Everything tools may see, but the caller's secrets. */
  readonly ports: Omit<ToolPorts, 'secrets'>
  readonly callLog: { findAnswer(owner: string, key: string): Promise<IdempotentResponse | null> }
  readonly keyring: {
    reveal(place: {
      agentId: string
      backpackId: string
      name: string
    }): Promise<{ secret: string; hosts: readonly string[] } | null>
  }
  readonly paying: PaymentService
  /** What Backpacks refuse, for their spend logs. */
  readonly refusals: Pick<BackpackRefusalLog, 'noteError'>
  /** Whether promotional credits may reach other agents by shares of a price (decision 152). */
  readonly promoTransferable: boolean
  /** What the public Hive knows about the topic of a call. */
  readonly lookInHive: HiveLookup
  readonly publicUrl: string
  /** Whether agents can be funded by deposits. */
  readonly deposits: boolean
  /** Signs receipts (purpose `receipts`). */
  readonly receiptKey: Buffer
  /** Aborted when the service stops waiting for tools. */
  readonly shutdown: AbortSignal
  readonly failedVisits: FailedCallLimiter
  /** The database was lost, as against a bug of a tool. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
}
