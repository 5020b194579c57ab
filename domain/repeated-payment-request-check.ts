/** Hashes that identify the sender of a request, beyond what its payment shows publicly. */
export interface RequesterIdentity {
  /** Its Idempotency-Key; null without one. */
  readonly key: string | null
  /** Hashes that only the sender can know. */
  readonly secrets: readonly string[]
  /** Client address. */
  readonly address: string | null
}

/** The parts of a paid request that decide whether another request repeats it. */
export interface PaymentRequestIdentity {
  /** Hash of method, path and body. */
  readonly fingerprint: string
  /** Hash of the bytes the payer signed: public after settlement. */
  readonly credential: string
  readonly agentId: string | null
  /** Null when they were not recorded. */
  readonly marks: RequesterIdentity | null
}

/**
 * Whether a request repeats an earlier one (decision 51): same request, same credential, same
 * sender. The sender is the agent. Without an agent, it must have the same Idempotency-Key, if
 * there was one, and share a secret or the address.
 */
export const isSamePaymentRequest = (
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
