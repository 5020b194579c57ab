import { toRequestJson } from './request-json.ts'
import { BudgetTask, type TaskState } from './budget-task.ts'
import { streamCall, type CallStreamEvent } from './call-stream.ts'
import { PaymentHook, type PaymentOptions } from './payment-hook.ts'
import { followSignals, type SignalEvent, type SignalStreamOptions } from './signal-stream.ts'
import { PaymentRefused, PaymentRequired } from './station-errors.ts'
import { StationSocket, type StationSocketOptions } from './station-socket.ts'
import {
  newIdempotencyKey,
  parseOrigin,
  StationTransport,
  type TransportRequest,
  type TransportOptions,
} from './station-transport.ts'
import type {
  InputOf,
  ListedTool,
  ToolCallOptions,
  ToolFunctions,
  ToolName,
  ToolQuote,
  ToolReply,
  ToolReplyMeta,
} from './tool-call-types.ts'

/** The client of a station: tools, budgets, Backpacks, streams. */

export interface GasStationOptions extends TransportOptions {
  /** Pays a 402 within its caps; without it a 402 is thrown. */
  readonly payment?: PaymentOptions | PaymentHook | undefined
  readonly backpackId?: string | undefined
  readonly taskId?: string | undefined
}

/** The limits of an agent key: what the program that gets it may do and spend. */
export interface AgentKeyTerms {
  readonly tools?: readonly string[]
  readonly fuse?: FuseLimits
  readonly expiry_days?: number
}
/** Null and absent: no limit. A change (`PATCH /api/backpack/{id}`) removes a limit only by `remove: ["per_day_usdc"]`. */
export interface FuseLimits {
  readonly per_call_usdc?: number | null
  readonly per_day_usdc?: number | null
  readonly per_month_usdc?: number | null
}

export interface AgentProfile {
  readonly name: string
  readonly description?: string
  readonly framework?: string
  readonly referral_code?: string
  readonly owner_email?: string
  readonly source?: string
  /** Also makes a key that is bound to a Backpack with these limits. */
  readonly agent_key?: AgentKeyTerms
}

export interface OnboardedAgentReply {
  readonly api_key: string
  readonly agent_id: string
  readonly wallet_address: string
  readonly fund_url: string
  readonly starter_credits_usdc: number
  readonly tell_your_operator: string
  readonly agent_key?: string
  readonly backpack_id?: string
}

export interface BalanceReply {
  readonly balance_usdc: number
  readonly promo_usdc: number
  readonly cash_usdc: number
  readonly held_usdc: number
  readonly fund_url: string
}

export interface BackpackSummary {
  readonly backpack_id: string
  readonly state: 'active' | 'expired' | 'revoked'
  readonly tools: readonly string[] | null
  readonly fuse: FuseLimits
  readonly spent_today_usdc: number
  readonly spent_total_usdc: number
  readonly expires_at: string
}

/** A client of one station. */
export class GasStation {
  readonly tools: ToolFunctions
  readonly #transport: StationTransport
  readonly #options: GasStationOptions
  readonly #hook: PaymentHook | null

  constructor(options: GasStationOptions) {
    const { payment } = options
    this.#options = options
    this.#transport = new StationTransport(options)
    this.#hook =
      payment === undefined || payment instanceof PaymentHook
        ? (payment ?? null)
        : new PaymentHook(payment)
    this.tools = new Proxy({} as ToolFunctions, {
      get: (_target, slug) =>
        // A promise would be looked for under `then`.
        typeof slug === 'string' && slug !== 'then'
          ? (input: never, called?: ToolCallOptions) => this.call(slug as ToolName, input, called)
          : undefined,
    })
  }

  /** Registers an agent and returns its client. The key is in the reply alone: store it. */
  static async onboard(
    options: GasStationOptions,
    profile: AgentProfile,
  ): Promise<{ readonly gas: GasStation; readonly agent: OnboardedAgentReply }> {
    const body = toRequestJson({ source: 'sdk', ...profile })
    const { body: agent } = await new StationTransport(options).send<OnboardedAgentReply>({
      method: 'POST',
      path: '/api/onboard',
      body,
    })
    return { gas: new GasStation({ ...options, apiKey: agent.api_key }), agent }
  }

  /**
   * The same client with other options: another key, a task, a Backpack. The caps stay shared. Another station
   * gets neither the key nor the ids of this one.
   */
  with(options: Partial<GasStationOptions>): GasStation {
    const { url = this.#transport.origin } = options
    const isHere = parseOrigin(url) === this.#transport.origin
    const own = isHere ? {} : { apiKey: undefined, taskId: undefined, backpackId: undefined }
    const payment = this.#hook ?? undefined
    return new GasStation({ ...this.#options, ...own, payment, ...options })
  }

  /** Calls a tool. A failed attempt is repeated under one key, so the call is charged once. */
  async call<T extends ToolName>(
    tool: T,
    input: InputOf<T>,
    options: ToolCallOptions = {},
  ): Promise<ToolReply<T>> {
    return (await this.callAny(tool, input, options)) as unknown as ToolReply<T>
  }

  /** The same for a tool that this version has no types for. */
  async callAny(
    tool: string,
    input: object,
    options: ToolCallOptions = {},
  ): Promise<Readonly<Record<string, unknown>> & ToolReplyMeta> {
    const request = this.#callRequest('/api/refuel', tool, input, options)
    const { body } = await this.#paying(tool, input, request, (paid) =>
      this.#transport.send<Record<string, unknown> & ToolReplyMeta>(paid),
    )
    return body
  }

  /** Streams a call: its progress, parts of its output, and its result last. */
  stream<T extends ToolName>(
    tool: T,
    input: InputOf<T>,
    options: ToolCallOptions = {},
  ): AsyncGenerator<CallStreamEvent<ToolReply<T>>, void> {
    let request = this.#callRequest('/api/refuel/stream', tool, input, options)
    const open = () =>
      this.#paying(tool, input, request, (paid) => {
        // A stream that is opened again brings the same payment.
        request = paid
        return this.#transport.open(paid)
      })
    return streamCall(this.#transport, open, options.signal)
  }

  /** What a call would cost, and whether it would be refused. */
  async quote<T extends ToolName>(tool: T, input: InputOf<T>): Promise<ToolQuote> {
    return this.#quote(tool, input, {})
  }

  /** The tools of the station, from all pages. Schemas of tools of other agents are at `/api/tools/{slug}`. */
  async catalogue(): Promise<readonly ListedTool[]> {
    const tools: ListedTool[] = []
    let path = '/api/tools'
    for (;;) {
      const page = await this.request<{
        tools: readonly ListedTool[]
        next_cursor?: string | null
      }>('GET', path)
      tools.push(...page.tools)
      if (typeof page.next_cursor !== 'string') return tools
      path = `/api/tools?cursor=${encodeURIComponent(page.next_cursor)}`
    }
  }

  balance(): Promise<BalanceReply> {
    return this.request('GET', '/api/credits/balance')
  }

  /** Runs work within a budget, ends its task, and returns what the work returned. */
  async task<R>(
    name: string,
    budgetUsdc: number,
    work: (task: BudgetTask<GasStation>) => Promise<R>,
  ): Promise<{ readonly result: R; readonly spent: TaskState }> {
    const task = await this.startTask(name, budgetUsdc)
    try {
      const result = await work(task)
      return { result, spent: await task.end() }
    } catch (error) {
      // Why the work failed matters more than that its task could not be cancelled.
      await task.cancel().catch(() => {})
      throw error
    }
  }

  /** Starts a task: a budget that its calls cannot exceed. */
  async startTask(name: string, budgetUsdc: number): Promise<BudgetTask<GasStation>> {
    const body = { name, budget_usdc: budgetUsdc }
    const task = await this.request<TaskState>('POST', '/api/task/start', body)
    return new BudgetTask(this.with({ taskId: task.task_id }), task.task_id)
  }

  /** Creates a Backpack: a list of tools with spend limits. */
  createBackpack(
    terms: AgentKeyTerms & { readonly agent_name?: string } = {},
  ): Promise<BackpackSummary> {
    return this.request('POST', '/api/backpack/create', terms)
  }

  /** A client whose calls act in a Backpack. */
  inBackpack(backpackId: string): GasStation {
    return this.with({ backpackId })
  }

  /** Follows channels, and resumes by itself. */
  signals(
    channels: readonly string[],
    options: SignalStreamOptions = {},
  ): AsyncGenerator<SignalEvent, void> {
    return followSignals(this.#transport, channels, options)
  }

  /** Opens a WebSocket that resumes by itself. */
  socket(options: StationSocketOptions = {}): Promise<StationSocket> {
    return StationSocket.open(this.#transport, options)
  }

  /** Any route of the API. A write gets a random Idempotency-Key unless one is given. */
  async request<R>(
    method: TransportRequest['method'],
    path: string,
    json?: unknown,
    options: Pick<TransportRequest, 'idempotencyKey' | 'signal'> = {},
  ): Promise<R> {
    const body = json === undefined ? undefined : toRequestJson(json)
    const headers = this.#limits({})
    return (await this.#transport.send<R>({ method, path, body, headers, ...options })).body
  }

  #limits({ taskId, backpackId, ghost }: ToolCallOptions): Record<string, string> {
    const task = taskId ?? this.#options.taskId
    const backpack = backpackId ?? this.#options.backpackId
    return {
      ...(task === undefined ? {} : { 'x-task-id': task }),
      ...(backpack === undefined ? {} : { 'x-backpack-id': backpack }),
      ...(ghost === undefined ? {} : { 'x-ghost-mode': ghost }),
    }
  }

  #callRequest(
    path: string,
    tool: string,
    input: object,
    options: ToolCallOptions,
  ): TransportRequest {
    const { idempotencyKey = newIdempotencyKey(), signal } = options
    const body = toRequestJson({ ...input, tool })
    return { method: 'POST', path, body, idempotencyKey, signal, headers: this.#limits(options) }
  }

  async #quote(tool: string, input: object, headers: Record<string, string>): Promise<ToolQuote> {
    const body = toRequestJson({ ...input, tool })
    const request: TransportRequest = { method: 'POST', path: '/api/quote', body, headers }
    return (await this.#transport.send<ToolQuote>(request)).body
  }

  /** Sends a call, and pays it once where the station asks for it and a hook may. */
  async #paying<R>(
    tool: string,
    input: object,
    request: TransportRequest,
    send: (request: TransportRequest) => Promise<R>,
  ): Promise<R> {
    const { origin } = this.#transport
    const earlier = await this.#hook?.earlierPayment(origin, request)?.catch(() => null)
    const first = withHeaders(request, earlier ?? {})
    try {
      return await send(first)
    } catch (error) {
      if (!(error instanceof PaymentRequired)) throw error
      // A second payment for the same call is never made.
      if (isPaid(first)) throw new PaymentRefused(error.problem)
      if (this.#hook === null || error.offers.length === 0) throw error
      const payment = await this.#hook.payCall(origin, request, error, () =>
        this.#quote(tool, input, { ...request.headers }),
      )
      const paid = withHeaders(request, payment)
      return await send(paid).catch((again: unknown) => {
        throw again instanceof PaymentRequired ? new PaymentRefused(again.problem) : again
      })
    }
  }
}

const withHeaders = (
  request: TransportRequest,
  headers: Readonly<Record<string, string>>,
): TransportRequest => ({ ...request, headers: { ...request.headers, ...headers } })

const isPaid = ({ headers = {} }: TransportRequest): boolean =>
  ['payment-signature', 'x-payment', 'authorization'].some((name) => name in headers)
