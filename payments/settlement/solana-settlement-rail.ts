import { SolanaUnavailableError } from '../../chain/solana/solana-rpc.ts'
import type {
  SolanaPaymentStatus,
  FindSolanaPayment,
} from '../../chain/solana/find-solana-payment-on-chain.ts'
import {
  FACILITATOR_TIMEOUT_MS,
  FacilitatorUnavailableError,
  type FacilitatorClient,
} from '../../chain/x402/facilitator-client.ts'
import { SECOND, type Clock } from '../../core/clock.ts'
import { LIMITS } from '../../core/limits.ts'
import {
  finalForeignSubmissionCheckAt,
  type SettlementNextStep,
  type SettlementRail,
  type SettlementEventRecorder,
  type SettlementAndPayment,
} from './settlement-rail.ts'
import { createSettlementStateAgeTracker } from './settlement-state-age.ts'

/** Settles payments on Solana through a facilitator. */

export interface SolanaSettlementRailDeps {
  readonly facilitator: FacilitatorClient
  /** The chain itself; null if no node of it is configured. */
  readonly look: FindSolanaPayment | null
  readonly clock: Clock
  readonly reporter: SettlementEventRecorder
  readonly log: (message: string, error: unknown) => void
}

/** Longer than the facilitator's timeout: earlier requests have been answered by then. */
const FACILITATOR_WAIT_MS = FACILITATOR_TIMEOUT_MS + 5 * SECOND

/**
 * Believes the facilitator's success, and its failure if the first request reports that nothing was
 * sent. Otherwise the settlement stays open: it asks the final blocks, if a node is configured, and
 * the facilitator again, which settles a transaction only once. Only the chain can declare a
 * payment lost: without a node it stays open until an operator decides (`gas settlement`).
 */
export function createSolanaSettlementRail({
  facilitator,
  look,
  clock,
  reporter,
  log,
}: SolanaSettlementRailDeps): SettlementRail {
  const beingAsked = createSettlementStateAgeTracker(clock, FACILITATOR_WAIT_MS)

  /** `first`: no earlier request, so nothing can have been sent. */
  async function settle(work: SettlementAndPayment, first: boolean): Promise<SettlementNextStep> {
    const { success, transaction, neverSent } = await facilitator.settle(work.payment)
    if (success)
      return toNextStep(reporter.settled(work, { tx: transaction, logIndex: 0, block: 0n }))
    if (work.money !== 'unknown') await reporter.unknown(work)
    if (first && neverSent) return toNextStep(reporter.lost(work, finalCheckIfReadable(look, work)))
    await keepName(work, transaction)
    return waits(work)
  }

  /** Stores the transaction, so that readers of the settlement can look it up. */
  async function keepName(work: SettlementAndPayment, transaction: string): Promise<void> {
    if (transaction === '' || transaction === work.txHash) return
    await reporter.submitted(work, transaction)
    await reporter.unknown(work)
  }

  function waits({ id, payment }: SettlementAndPayment): SettlementNextStep {
    if (look !== null || clock.now() < finalForeignSubmissionCheckAt(payment)) return 'later'
    log(`nobody can say whether settlement ${id} arrived: see gas settlement`, null)
    return STUCK_STEP
  }

  async function submit(work: SettlementAndPayment): Promise<SettlementNextStep> {
    if (!facilitator.available()) return 'later'
    if ((await reporter.submitted(work, null)) !== 'submitted') return 'on'
    try {
      return await settle({ ...work, money: 'submitted' }, true)
    } catch (error) {
      await reporter.unknown(work)
      // No request was sent, so nothing has happened.
      if (error instanceof FacilitatorUnavailableError && !error.requestSent)
        await reporter.retry(work, false)
      throw error
    }
  }

  async function reconcile(work: SettlementAndPayment): Promise<SettlementNextStep> {
    const landed = await onChain(work)
    if (landed.state === 'paid')
      return toNextStep(
        reporter.settled(work, { tx: landed.signature, logIndex: 0, block: landed.slot }),
      )
    if (landed.state === 'gone') return lost(work)
    if (landed.state === 'unpaid') return unpaid(work, landed)
    if (work.money === 'lost') return 'later'
    // A parallel request could send it and let another node hear that its own was never sent.
    if (work.money === 'submitted' && !beingAsked.hasLasted(work.id))
      return { restMs: FACILITATOR_WAIT_MS }
    beingAsked.reset(work.id)
    return settle(work, false)
  }

  /** A failing node proves nothing, and the facilitator may still know. */
  async function onChain({
    payment,
    txHash,
    id,
  }: SettlementAndPayment): Promise<SolanaPaymentStatus> {
    if (look === null) return { state: 'open' }
    try {
      return await look({ payment, named: txHash, now: clock.now() })
    } catch (error) {
      if (!(error instanceof SolanaUnavailableError)) throw error
      log(`the chain cannot be asked for settlement ${id}`, error)
      return { state: 'open' }
    }
  }

  async function unpaid(
    work: SettlementAndPayment,
    { signature, arrived }: Extract<SolanaPaymentStatus, { state: 'unpaid' }>,
  ): Promise<SettlementNextStep> {
    log(`${signature} has brought ${arrived} for settlement ${work.id}: see gas settlement`, null)
    if (arrived <= 0n) return lost(work)
    // Something else arrived: the payer must not be asked to pay again.
    if (work.money === 'submitted') await reporter.unknown(work)
    return STUCK_STEP
  }

  async function lost(work: SettlementAndPayment): Promise<SettlementNextStep> {
    if (work.money === 'submitted') await reporter.unknown(work)
    return toNextStep(reporter.lost(work, null))
  }

  return {
    advance: (work) => (work.money === 'due' ? submit(work) : reconcile(work)),
  }
}

/** The payer may have used the facilitator directly: the chain would show it. */
const finalCheckIfReadable = (
  look: FindSolanaPayment | null,
  { payment }: SettlementAndPayment,
): number | null => (look === null ? null : finalForeignSubmissionCheckAt(payment))

const STUCK_STEP = { restMs: LIMITS.settleStuckMs } as const

/** A finished settlement needs no recheck. */
async function toNextStep(recorded: Promise<string>): Promise<SettlementNextStep> {
  const money = await recorded
  return money === 'settled' || money === 'lost' ? 'done' : 'on'
}
