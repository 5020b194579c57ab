import type { TransactionReceipt } from 'viem'
import { toAddressTopic, ERC20_TRANSFER_TOPIC } from './evm-event-logs.ts'

/** A token transfer by its position in a transaction. */
export interface TransferReference {
  readonly logIndex: number
  /** Null matches any token: the transaction was read as one of ours before. */
  readonly asset: string | null
  /** In lower case; null matches any sender. */
  readonly sender: string | null
  /** Atomic units. */
  readonly amount: bigint
}

/** Whether a transaction made exactly this transfer, at this log index of its block. */
export function receiptHasTransfer(receipt: TransactionReceipt, moved: TransferReference): boolean {
  const { logIndex, asset, sender, amount } = moved
  const log = receipt.logs.find((one) => one.logIndex === logIndex)
  if (receipt.status !== 'success' || log === undefined) return false
  const topics: readonly string[] = log.topics
  return (
    (asset === null || log.address.toLowerCase() === asset.toLowerCase()) &&
    topics[0] === ERC20_TRANSFER_TOPIC &&
    (sender === null || topics[1]?.toLowerCase() === toAddressTopic(sender)) &&
    BigInt(log.data) === amount
  )
}
