/** What a request shows of who sent it, beside what a chain shows of its payment to everybody; hashes. */
export interface RequesterIdentity {
  /** Its Idempotency-Key; null without one. */
  readonly key: string | null
  /** What only its sender can know. */
  readonly secrets: readonly string[]
  /** The address it came from. */
  readonly address: string | null
}

/** A request that brings a payment, as far as it says whether another one is its repetition. */
export interface PaymentRequestIdentity {
  /** Of method, path and body. */
  readonly fingerprint: string
  /** Of the bytes the payer signed: known to everybody once the payment has settled. */
  readonly credential: string
  readonly agentId: string | null
  /** Null for one of which it was not kept. */
  readonly marks: RequesterIdentity | null
}

/**
 * Whether a request repeats an earlier one (decision 51): it asks for the same with the same credential,
 * and is of the same sender. That is its agent; without one, whoever shows its Idempotency-Key, if it had
 * one, and a secret of it or its address.
 */
export const isRepeatedPaymentRequest = (
  first: PaymentRequestIdentity,
  again: PaymentRequestIdentity,
): boolean =>
  first.fingerprint === again.fingerprint &&
  first.credential === again.credential &&
  first.agentId === again.agentId &&
  (first.agentId !== null || isSameSender(first.marks, again.marks))

function isSameSender(first: RequesterIdentity | null, again: RequesterIdentity | null): boolean {
  if (first === null) return true
  if (again === null || (first.key !== null && first.key !== again.key)) return false
  if (first.secrets.some((secret) => again.secrets.includes(secret))) return true
  return first.address !== null && first.address === again.address
}
