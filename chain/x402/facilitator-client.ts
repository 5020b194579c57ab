import { SECOND, type Clock } from '../../core/clock.ts'
import type { NormalizedPayment, PaymentRequirement } from '../onchain-payment-types.ts'
import { isRecord } from '../untrusted-json.ts'
import { requestJson } from '../json-http-client.ts'

/**
 * The facilitator gave no usable answer. After a sent `settle` the money may have moved; an unsent
 * one has done nothing.
 */
export class FacilitatorUnavailableError extends Error {
  readonly requestSent: boolean
  constructor(message: string, asked: boolean, cause?: unknown) {
    super(message, { cause })
    this.name = 'FacilitatorUnavailableError'
    this.requestSent = asked
  }
}

export interface FacilitatorVerification {
  readonly isValid: boolean
  readonly invalidReason: string | null
  readonly payer: string | null
}

export interface FacilitatorSettlement {
  readonly success: boolean
  /** Empty if none was sent, or it is not reported. */
  readonly transaction: string
  /** A rejection from before anything was sent. Any other one leaves the outcome open. */
  readonly neverSent: boolean
  readonly errorReason: string | null
  readonly payer: string | null
}

/** A kind of payment a facilitator settles. */
export interface FacilitatorPaymentKind {
  readonly version: number
  readonly scheme: string
  readonly network: string
  /** The account that pays the fees on Solana. */
  readonly feePayer: string | null
}

export interface FacilitatorClient {
  /** False while the breaker is open after repeated failures. */
  available(): boolean
  supported(): Promise<FacilitatorPaymentKind[]>
  /** A rejection is a result. Throws `FacilitatorUnavailableError` if there is no answer. */
  verify(payment: NormalizedPayment): Promise<FacilitatorVerification>
  /** The same; after a throw the outcome is unknown. */
  settle(payment: NormalizedPayment): Promise<FacilitatorSettlement>
}

export interface FacilitatorOptions {
  /** Base address, without the slash. */
  readonly url: string
  readonly send: typeof fetch
  readonly clock: Pick<Clock, 'mono'>
  readonly timeoutMs?: number
}

/** Deadline of a request. */
export const FACILITATOR_TIMEOUT_MS = 15 * SECOND
const MAX_FACILITATOR_RESPONSE_BYTES = 64 * 1024
const FAILURES_TO_OPEN = 3
const BREAKER_COOLDOWN_MS = 10 * SECOND

/** Creates a client of a remote x402 facilitator: no redirects, a deadline, a circuit breaker. */
export function createFacilitatorClient(options: FacilitatorOptions): FacilitatorClient {
  const breaker = createFacilitatorBreaker(options.clock)
  const ask = async <T>(path: string, body: unknown, read: (answer: unknown) => T | null) => {
    const done = breaker.enter()
    let answer: T | null = null
    try {
      answer = read(await exchange(options, path, body))
    } catch (error) {
      throw new FacilitatorUnavailableError(`${path}: no answer`, true, error)
    } finally {
      done(answer !== null)
    }
    if (answer === null)
      throw new FacilitatorUnavailableError(`${path}: an answer in an unknown form`, true)
    return answer
  }
  return {
    available: breaker.available,
    supported: () => ask('/supported', undefined, readSupported),
    verify: async (payment) => ask('/verify', requestFor(payment), readVerification),
    settle: async (payment) => ask('/settle', requestFor(payment), readSettlement),
  }
}

/** Always version 2: a Solana transaction does not depend on the dialect. */
function requestFor({ proof }: NormalizedPayment) {
  if (proof.kind !== 'solana') throw new Error(`a facilitator settles no ${proof.kind}`)
  const paymentRequirements: PaymentRequirement = proof.requirement
  const payload = { transaction: proof.transaction }
  return {
    x402Version: 2,
    paymentPayload: { x402Version: 2, accepted: paymentRequirements, payload },
    paymentRequirements,
  }
}

/** The JSON of a reply. A rejection may have a 4xx status; 5xx and redirects are no result. */
async function exchange(
  { url, send, timeoutMs = FACILITATOR_TIMEOUT_MS }: FacilitatorOptions,
  path: string,
  body: unknown,
): Promise<unknown> {
  const asked = {
    url: `${url}${path}`,
    send,
    body,
    timeoutMs,
    maxBytes: MAX_FACILITATOR_RESPONSE_BYTES,
  }
  return (await requestJson(asked)).json
}

const text = (value: unknown): string | null => (typeof value === 'string' ? value : null)

function readVerification(answer: unknown): FacilitatorVerification | null {
  if (!isRecord(answer) || typeof answer['isValid'] !== 'boolean') return null
  const { isValid, invalidReason, payer } = answer
  return { isValid, invalidReason: text(invalidReason), payer: text(payer) }
}

function readSettlement(answer: unknown): FacilitatorSettlement | null {
  if (!isRecord(answer) || typeof answer['success'] !== 'boolean') return null
  const { success, errorReason, payer } = answer
  const transaction = text(answer['transaction']) ?? ''
  // a success without a transaction cannot be booked
  if (success && transaction === '') return null
  const reason = text(errorReason)
  const neverSent = !success && transaction === '' && reason !== null && isRefusal(reason)
  return { success, transaction, neverSent, errorReason: reason, payer: text(payer) }
}

/**
 * Reasons that a facilitator reports before it sends. Reasons from sending and confirming are left
 * out (`transaction_failed`, `settle_exact_…`, `unexpected_settle_error`, `duplicate_settlement`,
 * `invalid_transaction_state`), and so are unknown ones.
 */
const PRE_SEND_REASONS =
  /^(invalid_(exact_svm_|payload$|payment|scheme$|network$|x402_version$)|unsupported_scheme$|network_mismatch$|insufficient_funds$|payment_expired$|verification_failed$|transaction_simulation_failed$|fee_payer_not_managed)/

const isRefusal = (reason: string): boolean => PRE_SEND_REASONS.test(reason)

function readSupported(answer: unknown): FacilitatorPaymentKind[] | null {
  if (!isRecord(answer) || !Array.isArray(answer['kinds'])) return null
  return answer['kinds'].flatMap((kind: unknown) => {
    if (!isRecord(kind)) return []
    const { x402Version: version, scheme, network, extra } = kind
    if (typeof version !== 'number' || typeof scheme !== 'string') return []
    if (typeof network !== 'string') return []
    return [
      { version, scheme, network, feePayer: isRecord(extra) ? text(extra['feePayer']) : null },
    ]
  })
}

/**
 * Opens after several failures in a row. After a pause it lets one request through: success closes
 * the breaker, failure starts the pause again.
 */
function createFacilitatorBreaker(clock: Pick<Clock, 'mono'>) {
  let failures = 0
  let openedAt = 0
  let trying = false
  const isOpen = () => failures >= FAILURES_TO_OPEN
  const available = () => !isOpen() || (!trying && clock.mono() - openedAt >= BREAKER_COOLDOWN_MS)
  return {
    available,
    /** Throws while open; call the returned function with whether there was an answer. */
    enter(): (answered: boolean) => void {
      if (!available())
        throw new FacilitatorUnavailableError('left alone after repeated failures', false)
      const trial = isOpen()
      if (trial) trying = true
      return (answered) => {
        if (trial) trying = false
        failures = answered ? 0 : failures + 1
        if (!answered && isOpen()) openedAt = clock.mono()
      }
    },
  }
}
