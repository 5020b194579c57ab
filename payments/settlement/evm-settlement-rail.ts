import type { EvmClient } from '../../chain/evm/evm-client.ts'
import type { NormalizedPayment } from '../../chain/onchain-payment-types.ts'
import { WouldRevertError } from '../../chain/evm/settler-evm-transactions.ts'
import type { Eip3009Token } from '../../chain/evm/eip3009.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import type { StoredSettlerTransaction } from '../../persistence/payments/settler-transaction-store.ts'
import { MAX_REORG_BLOCKS } from '../commands/payment-claim-commands.ts'
import { createSettlementTransactionBatcher } from './settlement-transaction-batcher.ts'
import {
  finalForeignSubmissionCheckAt,
  PAYMENT_GIVE_UP_SECONDS_AFTER_EXPIRY,
  type SettlementNextStep,
  type SettlementRail,
  type SettlementEventRecorder,
  type SettlementAndPayment,
} from './settlement-rail.ts'
import {
  createSettlementStateAgeTracker,
  type SettlementStateAgeTracker,
} from './settlement-state-age.ts'
import {
  toEvmPaymentSettlementMethod,
  type EvmPaymentSettlementMethod,
} from './eip3009-permit2-settlement-method.ts'
import type { SettlerTransactionSender } from './settler-transaction-sender.ts'
import type { SettlerTransactionOutcome } from './settler-transaction-outcomes.ts'

/** Settles EIP-3009 and Permit2 payments by transactions of our own key. */

export interface EvmSettlementRailDeps {
  readonly client: EvmClient
  readonly token: Eip3009Token
  readonly transmitter: SettlerTransactionSender
  readonly clock: Clock
  readonly reporter: SettlementEventRecorder
  readonly log: (message: string, error: unknown) => void
  /** The settlement or deposit a transfer on this chain is booked for, or null. */
  readonly bookedFor: (tx: string, logIndex: number) => Promise<string | null>
  /** How long to wait for a receipt after sending, in milliseconds. */
  readonly receiptMs: number
  readonly signal: AbortSignal
}

/** What all steps of one chain share. */
interface EvmRailContext extends EvmSettlementRailDeps {
  /** Signs and stores the transaction of a settlement, alone or in a batch. */
  readonly prepare: (
    work: SettlementAndPayment,
    terms: EvmPaymentSettlementMethod,
  ) => Promise<StoredSettlerTransaction>
  /** Settlements whose last simulation failed. */
  readonly hopeless: SettlementStateAgeTracker
}

/** Creates the settlement rail of one EVM chain. */
export function createEvmSettlementRail(parts: EvmSettlementRailDeps): SettlementRail {
  const { client, token, transmitter, bookedFor } = parts
  const shared = createSettlementTransactionBatcher(parts)
  // A caller that waits for its payment sends it alone: a batch is never cancelled for one member.
  const prepare = (
    { id: purpose, delivery, payment }: SettlementAndPayment,
    { call, isBatchable }: EvmPaymentSettlementMethod,
  ) =>
    isBatchable && delivery === 'delivered'
      ? shared({ purpose, payer: payment.from, call })
      : transmitter.prepare(purpose, call)
  const rail: EvmRailContext = {
    ...parts,
    prepare,
    hopeless: createSettlementStateAgeTracker(parts.clock, REVERT_RECHECK_MS),
  }
  const termsFor = ({ id, payment }: { id: string; payment: NormalizedPayment }) =>
    toEvmPaymentSettlementMethod(client, token, payment, async (tx, logIndex) => {
      const booked = await bookedFor(tx, logIndex)
      return booked === null || booked === id
    })
  return {
    advance(work) {
      const terms = termsFor(work)
      if (work.money === 'due') return submit(rail, work, terms)
      return work.money === 'submitted' ? confirm(rail, work, terms) : reconcile(rail, work, terms)
    },
  }
}

/** No node behind one address lags that far. */
const REVERT_RECHECK_MS = 12 * SECOND

/** Signs, stores, records, sends, in this order: no crash leaves a payment unrecorded. */
async function submit(
  rail: EvmRailContext,
  work: SettlementAndPayment,
  terms: EvmPaymentSettlementMethod,
): Promise<SettlementNextStep> {
  const { reporter, prepare, transmitter } = rail
  const tx = await prepare(work, terms).catch(nullIfReverting)
  if (tx === null) return toNextStep(reporter.unknown(work))
  const money = await reporter.submitted(work, tx.hash)
  // Another node gave it up before this one signed: its payer may have been notified.
  if (money === 'lost') await transmitter.cancel(work.id)
  if (money !== 'submitted') return 'on'
  if (!(await sendTransaction(rail, work, tx))) return 'later'
  return awaitReceipt(rail, work, terms, tx)
}

/** A node that does not answer may have forwarded it. */
async function sendTransaction(
  { transmitter, reporter }: EvmRailContext,
  work: SettlementAndPayment,
  tx: StoredSettlerTransaction,
): Promise<boolean> {
  const taken = await transmitter.send(tx).catch((error: unknown) => error as Error)
  if (taken === true) return true
  await reporter.unknown(work)
  if (taken !== false) throw taken
  return false
}

async function awaitReceipt(
  rail: EvmRailContext,
  work: SettlementAndPayment,
  terms: EvmPaymentSettlementMethod,
  tx: StoredSettlerTransaction,
): Promise<SettlementNextStep> {
  const { transmitter, reporter, receiptMs, signal } = rail
  const verdict = await transmitter.wait(tx, receiptMs, signal)
  if (verdict.state !== 'open') return conclude(rail, work, terms, verdict)
  if (!signal.aborted) await reporter.unknown(work)
  return 'later'
}

/** Another request may be waiting for it: only old submissions become unknown. */
async function confirm(
  rail: EvmRailContext,
  work: SettlementAndPayment,
  terms: EvmPaymentSettlementMethod,
): Promise<SettlementNextStep> {
  const { transmitter, reporter } = rail
  const verdict = await transmitter.look(work.id)
  if (verdict.state !== 'open') return conclude(rail, work, terms, verdict)
  const tx = await transmitter.newest(work.id)
  if (tx !== null && transmitter.isFresh(tx)) return 'later'
  return toNextStep(reporter.unknown(work))
}

async function conclude(
  rail: EvmRailContext,
  work: SettlementAndPayment,
  terms: EvmPaymentSettlementMethod,
  verdict: SettlerTransactionOutcome,
): Promise<SettlementNextStep> {
  const where = findArrival(terms, verdict)
  if (where !== null) return toNextStep(rail.reporter.settled(work, where))
  await rail.reporter.unknown(work)
  return work.money === 'unknown' ? 'later' : 'on'
}

function findArrival(terms: EvmPaymentSettlementMethod, { receipt }: SettlerTransactionOutcome) {
  const logIndex = receipt === null ? null : terms.findPaymentLogIndex(receipt)
  if (receipt === null || logIndex === null) return null
  return { tx: receipt.transactionHash, logIndex, block: receipt.blockNumber }
}

/**
 * Our own transactions are found by hash. Beyond that, the payment's nonce on the chain decides,
 * for any sender.
 */
async function reconcile(
  rail: EvmRailContext,
  work: SettlementAndPayment,
  terms: EvmPaymentSettlementMethod,
): Promise<SettlementNextStep> {
  const { reporter, log, transmitter } = rail
  const verdict = await transmitter.look(work.id)
  const where = findArrival(terms, verdict)
  if (where !== null) return toNextStep(reporter.settled(work, where))
  const found = await terms.find(work.fromBlock)
  if (found.state === 'used' && found.paid) return toNextStep(reporter.settled(work, found))
  if (found.state === 'used' || found.state === 'canceled') {
    log(`the payment of ${work.id} was ${found.state} without paying`, found.tx)
    // The block may be replaced by one in which it is paid: one final check is left.
    return giveUp(
      rail,
      work,
      work.money === 'lost' ? null : finalForeignSubmissionCheckAt(work.payment),
    )
  }
  if (found.headTime >= work.payment.validBefore + BigInt(PAYMENT_GIVE_UP_SECONDS_AFTER_EXPIRY)) {
    if (found.state === 'spent') log(`the nonce of ${work.id} was spent on something else`, null)
    return giveUp(rail, work, null)
  }
  if (found.state === 'spent' || work.money === 'lost') return 'later'
  return retryUnusedPayment(rail, work, terms, verdict)
}

/** Delay after a failure in a block; doubles with each failure. */
const FAILED_RETRY_MS = 2 * SECOND

/** Retries a payment whose nonce is unused and still valid. */
async function retryUnusedPayment(
  rail: EvmRailContext,
  work: SettlementAndPayment,
  terms: EvmPaymentSettlementMethod,
  verdict: SettlerTransactionOutcome,
): Promise<SettlementNextStep> {
  const { transmitter, reporter, log } = rail
  const delivered = work.delivery === 'delivered'
  // Mined without paying: in a batch one payment may fail while others succeed.
  const failed = verdict.state === 'reverted' || verdict.state === 'mined'
  // Its sender got the failure as its reply: nothing may be taken after that.
  if (failed && !delivered) return giveUp(rail, work, finalForeignSubmissionCheckAt(work.payment))
  // Each transaction counts once: its hash is cleared with its failure.
  const counts = failed && work.txHash !== null
  const failures = work.attempts + (counts ? 1 : 0)
  // A payer's contract may pass every simulation and fail in every block, at our gas cost.
  if (counts && failures >= LIMITS.settleAttempts) {
    log(`the payment of ${work.id} has failed in ${failures} blocks: given up`, null)
    return giveUp(rail, work, finalForeignSubmissionCheckAt(work.payment))
  }
  const tx = verdict.state === 'open' ? await transmitter.newest(work.id) : null
  if (await isCertainToRevert(rail, terms, tx)) {
    const now = await terms.find(work.fromBlock)
    // Anybody may have submitted it in this moment.
    if (now.state !== 'unused') return 'on'
    if (!delivered) {
      // The simulating node may know a block that the other node does not know yet.
      const certain = await revertsAtBlock(rail, work, terms, now.head)
      if (!certain && !rail.hopeless.hasLasted(work.id)) return { restMs: REVERT_RECHECK_MS }
      return giveUp(rail, work, finalForeignSubmissionCheckAt(work.payment))
    }
    await transmitter.cancel(work.id)
    return 'later'
  }
  rail.hopeless.reset(work.id)
  if (tx === null) {
    await reporter.retry(work, counts)
    // It failed in a block although its simulation had passed, so it may fail again: wait.
    if (counts) return { restMs: FAILED_RETRY_MS * 2 ** work.attempts }
    return failed ? 'later' : 'on'
  }
  if ((await reporter.submitted(work, tx.hash)) !== 'submitted') return 'on'
  return (await sendTransaction(rail, work, tx)) ? awaitReceipt(rail, work, terms, tx) : 'later'
}

/** Simulates a signed transaction as it is, and an unsigned one as it would be signed. */
async function isCertainToRevert(
  { transmitter }: EvmRailContext,
  { call }: EvmPaymentSettlementMethod,
  tx: StoredSettlerTransaction | null,
) {
  if (tx !== null) return transmitter.wouldRevert(call, tx)
  return (await transmitter.estimate(call).catch(nullIfReverting)) === null
}

/**
 * Whether a payment unused at a block also reverts at this block, and its payer had the funds no
 * later: then no lagging node is the cause, and no recheck is needed.
 */
async function revertsAtBlock(
  { transmitter }: EvmRailContext,
  { fromBlock }: SettlementAndPayment,
  { call }: EvmPaymentSettlementMethod,
  block: bigint,
): Promise<boolean> {
  if (fromBlock === 0n || block < fromBlock + MAX_REORG_BLOCKS) return false
  return transmitter.revertsAt(call, block).catch(() => false)
}

async function giveUp(
  { transmitter, reporter }: EvmRailContext,
  work: SettlementAndPayment,
  lookAt: number | null,
): Promise<SettlementNextStep> {
  await transmitter.cancel(work.id)
  return toNextStep(reporter.lost(work, lookAt))
}

/** A finished settlement needs no recheck. */
async function toNextStep(recorded: Promise<string>): Promise<SettlementNextStep> {
  const money = await recorded
  return money === 'settled' || money === 'lost' ? 'done' : 'on'
}

function nullIfReverting(error: unknown): null {
  if (error instanceof WouldRevertError) return null
  throw error
}
