/** The errors of the SDK, and the one mapping from the codes of problems to their classes. */

/** A problem document (RFC 9457): what the station answers instead of a result. */
export interface StationProblem {
  readonly code: string
  readonly status: number
  readonly title?: string
  readonly detail?: string
  readonly instance?: string
  readonly retry_after?: number
  readonly call_id?: string
  readonly fund_url?: string
  readonly remedy?: { readonly action: string; readonly method?: string; readonly url?: string }
  readonly [name: string]: unknown
}

/** Everything that this SDK throws by itself. */
export class GasStationError extends Error {
  /** The code of the problem, or a name of the SDK's own in the same spelling. */
  readonly code: string
  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = new.target.name
    this.code = code
  }
}

/** The station refused the request, or could not serve it. */
export class StationRefusal extends GasStationError {
  readonly status: number
  readonly problem: StationProblem
  constructor(problem: StationProblem) {
    super(problem.code, problem.detail ?? problem.title ?? problem.code)
    this.status = problem.status
    this.problem = problem
  }
  /** The call that failed, for `GET /api/calls/{id}`. */
  get callId(): string | null {
    return this.problem.call_id ?? null
  }
  get retryAfterSeconds(): number | null {
    return this.problem.retry_after ?? null
  }
}

/** The request is wrong: `problem.errors` points at each field. */
export class InvalidRequest extends StationRefusal {}
/** No key, or one that does not work. */
export class Unauthenticated extends StationRefusal {}
/** The key may not do this. */
export class NotAllowed extends StationRefusal {}
export class NotFound extends StationRefusal {}
/** The state of a thing does not allow this. */
export class Conflict extends StationRefusal {}
/** The budget of the task, the schedule or the key would be exceeded. Nothing was charged. */
export class BudgetExceeded extends StationRefusal {}
/** A spend limit of the Backpack would be exceeded. Nothing was charged. */
export class FuseTripped extends StationRefusal {}
/** Too many requests, or the free calls of today are used up. */
export class RateLimited extends StationRefusal {}
/** The tool or its provider failed. Nothing was charged. */
export class ToolFailed extends StationRefusal {}
/** Whether the call took effect is not known. It was not charged and must not be repeated blindly. */
export class OutcomeUnknown extends StationRefusal {}
/** The station, or something that it needs, cannot answer now. */
export class StationUnavailable extends StationRefusal {}
/** A payment was sent and not accepted. The SDK never sends a second one for the same call. */
export class PaymentRefused extends StationRefusal {}
/** The outcome of a payment is not known yet: ask for `settlementId`, and do not pay again. */
export class SettlementUnknown extends StationRefusal {
  get settlementId(): string | null {
    const { settlement_id: id } = this.problem
    return typeof id === 'string' ? id : null
  }
}

/** One way to pay for a call, as a 402 or a quote states it. */
export interface PaymentWay {
  readonly protocol: 'x402' | 'mpp'
  /** CAIP-2. */
  readonly network: string
  readonly asset: string
  readonly payTo: string
  /** Atomic units of the asset, decimal. */
  readonly amount: string
}

/** The call costs something that nobody has paid. Nothing was charged. */
export class PaymentRequired extends StationRefusal {
  /** The ways to pay; empty where the station takes no payments on a chain. */
  readonly offers: readonly PaymentWay[]
  constructor(problem: StationProblem, offers: readonly PaymentWay[]) {
    super(problem)
    this.offers = offers
  }
}

/** The payment hook signed nothing, because of a cap or because an offer differs from the quote. */
export class PaymentNotMade extends GasStationError {
  readonly required: PaymentRequired
  constructor(code: string, message: string, required: PaymentRequired, cause?: unknown) {
    super(code, message, cause)
    this.required = required
  }
}

/** No answer came: the network, a proxy or the station is down. Repeat a call under its `idempotencyKey`. */
export class StationUnreachable extends GasStationError {}
/** The station answered with a redirect. It is not followed, since it would carry the key away. */
export class RedirectRefused extends GasStationError {}
/** What came is no answer of a station. */
export class NotAStation extends GasStationError {}
/** A stream or a socket ended and could not be resumed. */
export class StreamBroken extends GasStationError {}

type RefusalClass = new (problem: StationProblem) => StationRefusal

/** Codes whose class their status does not tell. */
const CLASS_BY_CODE: Readonly<Record<string, RefusalClass>> = {
  task_budget_exceeded: BudgetExceeded,
  schedule_budget_exceeded: BudgetExceeded,
  key_cap_exceeded: BudgetExceeded,
  FUSE_TRIPPED: FuseTripped,
  payment_invalid: PaymentRefused,
  payment_malformed: PaymentRefused,
  payment_already_used: PaymentRefused,
  payment_credited: PaymentRefused,
  permit2_allowance_required: PaymentRefused,
  settlement_unknown: SettlementUnknown,
  payment_in_progress: SettlementUnknown,
  outcome_unknown: OutcomeUnknown,
  cancelled: ToolFailed,
}

const CLASS_BY_STATUS: Readonly<Record<number, RefusalClass>> = {
  401: Unauthenticated,
  403: NotAllowed,
  404: NotFound,
  405: NotFound,
  409: Conflict,
  410: Conflict,
  424: Conflict,
  429: RateLimited,
  502: ToolFailed,
  504: ToolFailed,
}

/** Returns the error of a problem; a code of a newer station gets the class of its status. */
export function toStationRefusal(
  problem: StationProblem,
  offers: readonly PaymentWay[] = [],
): StationRefusal {
  const known = CLASS_BY_CODE[problem.code]
  if (known !== undefined) return new known(problem)
  if (problem.status === 402) return new PaymentRequired(problem, offers)
  const byStatus = CLASS_BY_STATUS[problem.status]
  if (byStatus !== undefined) return new byStatus(problem)
  return problem.status >= 500 ? new StationUnavailable(problem) : new InvalidRequest(problem)
}
