import type { EvmClient } from '../../chain/evm/evm-client.ts'
import { readChainHead } from '../../chain/evm/evm-event-logs.ts'
import { broadcastMppCharge } from '../../chain/mpp/mpp-charge.ts'
import { findTransactionReceipt } from '../../chain/evm/settler-evm-transactions.ts'
import {
  PAYMENT_GIVE_UP_SECONDS_AFTER_EXPIRY,
  type SettlementNextStep,
  type SettlementRail,
  type SettlementEventRecorder,
  type SettlementAndPayment,
} from './settlement-rail.ts'

/** Settles MPP payments: broadcasts the payer's own transaction and finds it by its hash. */
export function createMppSettlementRail(
  client: EvmClient,
  reporter: SettlementEventRecorder,
): SettlementRail {
  async function submit(work: SettlementAndPayment): Promise<SettlementNextStep> {
    const { raw, hash } = mppChargeOf(work)
    if ((await reporter.submitted(work, hash)) !== 'submitted') return 'on'
    const { status, block } = await broadcastMppCharge(client, raw)
    if (status === 'success' && block !== undefined) await settled(work, block)
    else await reporter.unknown(work)
    return status === 'unknown' ? 'later' : 'on'
  }

  const settled = (work: SettlementAndPayment, block: bigint) =>
    reporter.settled(work, { tx: mppChargeOf(work).hash, logIndex: 0, block })

  /** The node that recorded the submission may have died before it could record more. */
  async function lost(work: SettlementAndPayment): Promise<void> {
    if (work.money === 'submitted') await reporter.unknown(work)
    await reporter.lost(work, null)
  }

  /** The receipt decides; without one the transaction is sent again until it is void. */
  async function reconcile(work: SettlementAndPayment): Promise<SettlementNextStep> {
    const { raw, hash } = mppChargeOf(work)
    const { headTime } = await readChainHead(client)
    const receipt = await findTransactionReceipt(client, hash)
    if (receipt?.status === 'success') await settled(work, receipt.blockNumber)
    else if (receipt !== null || isPaymentVoid(work, headTime)) await lost(work)
    else {
      const { status, block } = await broadcastMppCharge(client, raw)
      if (status !== 'success' || block === undefined) return 'later'
      await settled(work, block)
    }
    return 'on'
  }

  return {
    advance: (work) => (work.money === 'due' ? submit(work) : reconcile(work)),
  }
}

const isPaymentVoid = ({ payment }: SettlementAndPayment, headTime: bigint): boolean =>
  headTime >= payment.validBefore + BigInt(PAYMENT_GIVE_UP_SECONDS_AFTER_EXPIRY)

function mppChargeOf({ payment: { proof } }: SettlementAndPayment) {
  if (proof.kind !== 'mpp') throw new Error(`Tempo settles no payment of ${proof.kind}`)
  return proof
}
