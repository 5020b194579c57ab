import type { OnchainPayment } from '../../chain/payment.ts'
import type { OpenSettlement } from '../../persistence/payments/settlement-store.ts'

/** One settlement and what it is settled with. */
export interface SettlementTask extends OpenSettlement {
  readonly payment: OnchainPayment
  /** The payment was not used on its chain before this block. */
  readonly fromBlock: bigint
}

/**
 * `on`: it stands somewhere else now, look again at once; `later`: nothing can be done right now;
 * `done`: nothing is left to do; `restMs`: nothing can be done for at least so long.
 */
export type SettlementNextStep = 'on' | 'later' | 'done' | { readonly restMs: number }

/** What is told to a settlement; each answers with where its money stands then. */
export interface SettlementReporter {
  submitted(work: SettlementTask, txHash: string | null): Promise<string>
  unknown(work: SettlementTask): Promise<string>
  /** `failed`: a block had it, and it has not paid. */
  retry(work: SettlementTask, failed: boolean): Promise<string>
  settled(
    work: SettlementTask,
    where: { tx: string; logIndex: number; block: bigint },
  ): Promise<string>
  /** `readWalletSnapshot`: one more look then, in milliseconds; null when nothing can come any more. */
  lost(work: SettlementTask, lookAt: number | null): Promise<string>
}

/** One way to settle: takes a settlement one step further. What it throws is tried again later. */
export interface SettlementRail {
  advance(work: SettlementTask): Promise<SettlementNextStep>
}

/** The chain's clock has to be past the end of a payment by so much before it is given up. */
export const PAYMENT_EXPIRY_MARGIN_SECONDS = 10
/** After a payment has become void by our clock, the chain's is past it too. */
const FINAL_CHECK_MARGIN_MS = 60_000

/** When to look for the last time for a payment that somebody else might still submit. */
export const finalCheckAt = ({ validBefore }: OnchainPayment): number =>
  Number(validBefore) * 1000 + FINAL_CHECK_MARGIN_MS
