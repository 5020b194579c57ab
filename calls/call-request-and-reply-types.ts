import type { ActorSystem, CommandContext } from '../actors/aggregate-command-types.ts'
import type { Clock } from '../core/clock.ts'
import type { ServiceError } from '../core/errors.ts'
import type { ApiKeySpendingLimits } from '../domain/api-key-spending-limits.ts'
import type { Micros } from '../core/money.ts'
import type { CallRow, IdempotentResponse } from '../core/aggregate-commit-row-types.ts'
import type { PaymentTerms } from '../payments/payment-offers.ts'
import type { PaymentRequestContext, PaymentService } from '../payments/payment-service-types.ts'
import type { ToolCatalogue } from '../tools/tool-catalogue.ts'
import type { ToolStreamEvent } from '../tools/define-tool.ts'
import type { ToolPorts } from '../tools/tool-ports.ts'
import type { FailedCallLimiter } from './failed-call-limiter.ts'
import type { ExplainedRefusalRecorder } from './explained-refusal-recorder.ts'
import type { BackpackRefusalLog } from './backpack-refusal-log.ts'
import type { JsonFields } from './tool-input-from-request-body.ts'
import type { TaskPassJson } from '../domain/prepaid-task-passes.ts'

/** Types of the call pipeline: requests, replies and dependencies. */

export type GhostModeHeaderValue = 'off' | 'stealth' | 'observe'

/** The caller, as verified by the transport. */
export interface Caller {
  readonly agentId: string | null
  readonly key: ApiKeySpendingLimits | null
  readonly keyStatus: 'none' | 'valid' | 'invalid'
  /** Pseudonym of the address (IPv6: its /64). Its free calls are counted. */
  readonly visitorId: string
  /** Pseudonym of the IPv6 /48; null for IPv4. */
  readonly siteId: string | null
}

export interface CallIdempotency {
  readonly key: string
  readonly hash: string
  /** Time of the key's look-up (`clock.mono()`); absent before it. */
  readonly lookedUpAt?: number
}

/** The client's connection. The signal costs something, so it is created when it is read. */
export interface CallerConnection {
  /** Whether the client has disconnected. */
  readonly closed: boolean
  /** Aborted when the client disconnects. */
  readonly closeSignal: AbortSignal
  /** Aborted when the client takes the call back; absent where it cannot (decision 403). */
  readonly cancelSignal?: AbortSignal
}

/** The connection of a client whose disconnect aborts a signal already. */
export const toCallerConnectionFromSignal = (closeSignal: AbortSignal): CallerConnection => ({
  get closed() {
    return closeSignal.aborted
  },
  closeSignal,
})

/** A request for one tool. */
export interface CallRequest {
  readonly tool: string
  /** The tool's input. */
  readonly body: Record<string, unknown>
  readonly caller: Caller
  readonly taskId: string | null
  readonly backpackId: string | null
  readonly ghost: GhostModeHeaderValue
  readonly idempotency: CallIdempotency | null
  /** Transport data of the request, including a payment. */
  readonly door: PaymentRequestContext
  readonly connection: CallerConnection
  readonly requestId: string
  /**
   * Rate-limits this call. Runs after validation and before any hold is taken; throws
   * `rate_limited`, otherwise returns a function that refunds the token.
   */
  readonly takeRateToken?: (tool: string) => Promise<() => Promise<void>>
  /** The schedule that makes the call; absent for other callers. */
  readonly run?: ScheduledCall
}

/** A call by a schedule: it has no address, so no daily free calls, and its own price. */
export interface ScheduledCall {
  readonly scheduleId: string
  /** Fee in addition to the tool's price. */
  readonly fee: Micros
  /** Maximum total cost. */
  readonly budget: Micros
  /** Runs in the commit that ends the call. If it throws, nothing is charged. */
  onEnded(ctx: CommandContext, ending: CallOutcome): void
}

/** How a call ended: with output or with an error. */
export interface CallOutcome {
  readonly call: CallRow
  readonly output: JsonFields | null
  readonly error: ServiceError | null
}

export interface CallReply {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly headers: Record<string, string>
  /** The stored response of an earlier request with this Idempotency-Key. */
  readonly replayed: boolean
  readonly callId: string
}

export type EmitStreamEvent = (event: string, data: unknown) => void
/** A step of a running tool. */
export type ToolProgress = Extract<ToolStreamEvent, { type: 'progress' }>
/** Called when a stream starts, with the response headers known by then. */
export type OnStreamOpened = (replayed: boolean, headers?: CallReply['headers']) => void

export interface ToolCallBatchRequest extends Omit<CallRequest, 'tool' | 'body'> {
  readonly calls: readonly Record<string, unknown>[]
}

/**
 * The price of a call and its possible rejection. A type alias, so that it is assignable to a body.
 */
export type CallPriceQuote = {
  readonly tool: string
  readonly price_usdc: number
  /** `payment`: without a key, by any method that the 402 offers; null without one. */
  readonly rail: 'free' | 'pass' | 'credits' | 'payment' | null
  /** The task pass that would pay, before the call. */
  readonly pass: TaskPassJson | null
  readonly free_calls_left: number | null
  /** How the price can be paid on a chain; empty for a free call and without chains (decision 210). */
  readonly offers: PaymentTerms[]
  /** The problem document that the call would get. */
  readonly would_refuse: Record<string, unknown> | null
}

/** Executes calls (ARCHITECTURE.md): quote, admit, run, settle, reply. */
export interface CallService {
  /**
   * Runs a call. Rejects with a ServiceError and charges nothing, except that `unavailable` may say
   * the charge is unknown. `progress` hears the tool's steps while it runs, never its output.
   */
  refuel(request: CallRequest, progress?: (step: ToolProgress) => void): Promise<CallReply>
  /** Returns price, payment method and possible rejection. Holds nothing. */
  quote(request: CallRequest): Promise<CallPriceQuote>
  /** Throws if the request itself is invalid. Holds, runs and charges nothing. */
  check(request: CallRequest): Promise<void>
  /**
   * Streams a call. Rejects until `opened` was called; later errors are emitted as `error`, then
   * `done`.
   */
  stream(request: CallRequest, emit: EmitStreamEvent, opened: OnStreamOpened): Promise<void>
  /** Runs up to ten calls in parallel. A failed call is refunded by itself. */
  pipeline(request: ToolCallBatchRequest): Promise<CallReply>
  /**
   * The pipeline as a stream: a `partial` per call, then the `result`. A batch bought by a payment
   * has no partials, because it is delivered as a whole.
   */
  streamPipeline(
    request: ToolCallBatchRequest,
    emit: EmitStreamEvent,
    opened: OnStreamOpened,
  ): Promise<void>
}

/** A Hive entry beside a result, with enough text to decide whether to read it. */
export interface HiveExcerpt {
  readonly id: string
  readonly excerpt: string
  readonly namespace: string
  readonly confidence: number
  /** The author where public places name it. */
  readonly agent_id: string | null
  readonly created_at: string
}

/** Looks up a text in the public Hive, cached if possible. */
export type HiveExcerptLookup = (text: string) => Promise<readonly HiveExcerpt[]>

export interface CallDeps {
  readonly clock: Clock
  readonly actors: ActorSystem
  readonly catalogue: ToolCatalogue
  /** Ports of tools without the caller's secrets. */
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
  /** Records rejections by Backpacks for their spend logs. */
  readonly refusals: Pick<BackpackRefusalLog, 'noteError'>
  /** Explains refusals by machines (`why_url`). */
  readonly explained: Pick<ExplainedRefusalRecorder, 'note'>
  /** Whether price shares may move promotional credits to other agents (decision 152). */
  readonly promoTransferable: boolean
  /** Looks up the topic of a call in the public Hive. */
  readonly lookInHive: HiveExcerptLookup
  readonly publicUrl: string
  /** Whether agents can be funded by deposits. */
  readonly deposits: boolean
  /** Signs receipts (purpose `receipts`). */
  readonly receiptKey: Buffer
  /** Aborted when the service stops waiting for tools. */
  readonly shutdown: AbortSignal
  readonly failedVisits: FailedCallLimiter
  /** Counts what free calls of an agent keep. */
  readonly keptBytes: { take(agentId: string, bytes: number): Promise<void> | undefined }
  /** True when the database connection was lost, false for other errors. */
  readonly isOutage: (error: unknown) => boolean
  readonly log: (message: string, error: unknown) => void
}
