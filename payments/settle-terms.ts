import type { TransactionReceipt } from 'viem'
import type { Call, EvmClient } from '../chain/evm.ts'
import type { Hex, Payment } from '../chain/payment.ts'
import { findPermit2, settleCall, type IsFree } from '../chain/permit2.ts'
import { findAuthorization, paidIn, transferCall, type Found, type Token } from '../chain/usdc.ts'

/** How one kind of signature is settled on an EVM chain, and found there again. */
export interface Terms {
  readonly call: Call
  /** Whether a transaction that carries several of its kind says which of them it has paid. */
  readonly shares: boolean
  find(fromBlock: bigint): Promise<Found>
  /** The log that moved our money; null when there is none. */
  arrivedIn(receipt: TransactionReceipt): number | null
}

/** `isFree`: whether a transfer on the chain was booked for no other payment. */
export function termsOf(client: EvmClient, token: Token, payment: Payment, isFree: IsFree): Terms {
  const { asset, from, to, amount, validAfter, validBefore, proof } = payment
  if (proof.kind === 'eip3009') {
    const nonce = payment.nonce as Hex
    const authorization = { from, to, value: amount, validAfter, validBefore, nonce }
    return {
      call: transferCall(token, authorization, proof.signature),
      shares: true,
      find: (fromBlock) => findAuthorization(client, token, { ...authorization, fromBlock }),
      arrivedIn: (receipt) => paidIn(receipt, asset, from, to, amount, nonce),
    }
  }
  if (proof.kind !== 'permit2') throw new Error(`no EVM chain settles a payment of ${proof.kind}`)
  const { spender, deadline, signature } = proof
  const nonce = BigInt(payment.nonce)
  const permit = { from, token: asset, amount, spender, nonce, deadline, to, validAfter }
  return {
    call: settleCall(permit, signature),
    // Permit2 logs no use: among others it would be told from another one by its amount alone.
    shares: false,
    find: (fromBlock) => findPermit2(client, permit, fromBlock, isFree),
    arrivedIn: (receipt) => paidIn(receipt, asset, from, to, amount),
  }
}
