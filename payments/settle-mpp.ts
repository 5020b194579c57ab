import type { EvmClient } from '../chain/evm.ts'
import { headOf } from '../chain/logs.ts'
import { sendCharge } from '../chain/mpp/charge.ts'
import { receiptOf } from '../chain/transactions.ts'
import {
  VOID_MARGIN_SECONDS,
  type Next,
  type SettleRail,
  type Tell,
  type Work,
} from './settle-rail.ts'

/** Settles MPP: the payer's own transaction, broadcast by us and known by its hash. */
export function mppRail(client: EvmClient, tell: Tell): SettleRail {
  async function submit(work: Work): Promise<Next> {
    const { raw, hash } = chargeOf(work)
    if ((await tell.submitted(work, hash)) !== 'submitted') return 'on'
    const { status, block } = await sendCharge(client, raw)
    if (status === 'success' && block !== undefined) await settled(work, block)
    else await tell.unknown(work)
    return status === 'unknown' ? 'later' : 'on'
  }

  const settled = (work: Work, block: bigint) =>
    tell.settled(work, { tx: chargeOf(work).hash, logIndex: 0, block })

  /** Whoever has said that it sends it may have died before it could say more. */
  async function lost(work: Work): Promise<void> {
    if (work.money === 'submitted') await tell.unknown(work)
    await tell.lost(work, null)
  }

  /** The hash is known, so its receipt decides; without one it is sent again until it is void. */
  async function reconcile(work: Work): Promise<Next> {
    const { raw, hash } = chargeOf(work)
    const { headTime } = await headOf(client)
    const receipt = await receiptOf(client, hash)
    if (receipt?.status === 'success') await settled(work, receipt.blockNumber)
    else if (receipt !== null || isVoid(work, headTime)) await lost(work)
    else {
      const { status, block } = await sendCharge(client, raw)
      if (status !== 'success' || block === undefined) return 'later'
      await settled(work, block)
    }
    return 'on'
  }

  return {
    advance: (work) => (work.money === 'due' ? submit(work) : reconcile(work)),
  }
}

const isVoid = ({ payment }: Work, headTime: bigint): boolean =>
  headTime >= payment.validBefore + BigInt(VOID_MARGIN_SECONDS)

function chargeOf({ payment: { proof } }: Work) {
  if (proof.kind !== 'mpp') throw new Error(`Tempo settles no payment of ${proof.kind}`)
  return proof
}
