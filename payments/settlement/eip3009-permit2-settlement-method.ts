import type { TransactionReceipt } from 'viem'
import type { EvmCall, EvmClient } from '../../chain/evm/evm-client.ts'
import type { HexString, NormalizedPayment } from '../../chain/onchain-payment-types.ts'
import {
  readPermit2PaymentOutcome,
  permit2SettleCall,
  type IsTransferLogUnclaimed,
} from '../../chain/evm/permit2.ts'
import {
  readEip3009Status,
  findPaymentLogIndex,
  eip3009TransferCall,
  type SignedPaymentStatus,
  type Eip3009Token,
} from '../../chain/evm/eip3009.ts'

/** How one kind of signature is settled on an EVM chain, and found there again. */
export interface EvmPaymentSettlementMethod {
  readonly call: EvmCall
  /** Whether the receipt of a batch shows which of its payments succeeded. */
  readonly isBatchable: boolean
  find(fromBlock: bigint): Promise<SignedPaymentStatus>
  /** The log that moved our money; null if there is none. */
  findPaymentLogIndex(receipt: TransactionReceipt): number | null
}

/** `isPortFree`: whether a transfer on the chain is booked for no other payment. */
export function toEvmPaymentSettlementMethod(
  client: EvmClient,
  token: Eip3009Token,
  payment: NormalizedPayment,
  isFree: IsTransferLogUnclaimed,
): EvmPaymentSettlementMethod {
  const { asset, from, to, amount, validAfter, validBefore, proof } = payment
  if (proof.kind === 'eip3009') {
    const nonce = payment.nonce as HexString
    const authorization = { from, to, value: amount, validAfter, validBefore, nonce }
    return {
      call: eip3009TransferCall(token, authorization, proof.signature),
      isBatchable: true,
      find: (fromBlock) => readEip3009Status(client, token, { ...authorization, fromBlock }),
      findPaymentLogIndex: (receipt) =>
        findPaymentLogIndex(receipt, asset, from, to, amount, nonce),
    }
  }
  if (proof.kind !== 'permit2') throw new Error(`no EVM chain settles a payment of ${proof.kind}`)
  const { spender, deadline, signature } = proof
  const nonce = BigInt(payment.nonce)
  const permit = { from, token: asset, amount, spender, nonce, deadline, to, validAfter }
  return {
    call: permit2SettleCall(permit, signature),
    // Permit2 emits no event of its use: within a batch only the amount would identify it.
    isBatchable: false,
    find: (fromBlock) => readPermit2PaymentOutcome(client, permit, fromBlock, isFree),
    findPaymentLogIndex: (receipt) => findPaymentLogIndex(receipt, asset, from, to, amount),
  }
}
