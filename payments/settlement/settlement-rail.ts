import type { NormalizedPayment } from '../../chain/onchain-payment-types.ts'
import type { OpenSettlement } from '../../persistence/payments/settlement-queries.ts'

/** One settlement and its payment. */
export interface SettlementAndPayment extends OpenSettlement {
  readonly payment: NormalizedPayment
  /** The payment was not used on its chain before this block. */
  readonly fromBlock: bigint
}

/**
 * `on`: the state has changed, continue at once; `later`: nothing can be done right now; `done`:
 * nothing is left; `restMs`: wait at least this long.
 */
export type SettlementNextStep = 'on' | 'later' | 'done' | { readonly restMs: number }

/** Records events of a settlement; each method returns the money state afterwards. */
export interface SettlementEventRecorder {
  submitted(work: SettlementAndPayment, txHash: string | null): Promise<string>
  unknown(work: SettlementAndPayment): Promise<string>
  /** `failed`: a block contains it, without a payment. */
  retry(work: SettlementAndPayment, failed: boolean): Promise<string>
  settled(
    work: SettlementAndPayment,
    where: { tx: string; logIndex: number; block: bigint },
  ): Promise<string>
  /** `lookAt`: time of one final check, in milliseconds; null if nothing can arrive any more. */
  lost(work: SettlementAndPayment, lookAt: number | null): Promise<string>
}

/**
 * One way to settle: advances a settlement by one step. If it throws, the step is retried later.
 */
export interface SettlementRail {
  advance(work: SettlementAndPayment): Promise<SettlementNextStep>
}

/** How far the chain's clock must be past the end of a payment before it is given up. */
export const PAYMENT_GIVE_UP_SECONDS_AFTER_EXPIRY = 10
/** Once a payment is void by our clock, after this it is void by the chain's clock too. */
const FINAL_CHECK_MARGIN_MS = 60_000

/** When to check for the last time whether somebody else has submitted a payment. */
export const finalForeignSubmissionCheckAt = ({ validBefore }: NormalizedPayment): number =>
  Number(validBefore) * 1000 + FINAL_CHECK_MARGIN_MS
