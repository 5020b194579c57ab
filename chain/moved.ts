import type { TransactionReceipt } from 'viem'
import { addressTopic, TRANSFER_TOPIC } from './logs.ts'

/** A transfer of a token by its place in a transaction. */
export interface Moved {
  readonly logIndex: number
  /** Null is any token: the transaction was read as one of ours before. */
  readonly asset: string | null
  /** In lower case; null is anybody. */
  readonly sender: string | null
  /** Atomic units. */
  readonly amount: bigint
}

/** Whether a transaction made exactly this transfer, at this very place among the logs of its block. */
export function movedIn(receipt: TransactionReceipt, moved: Moved): boolean {
  const { logIndex, asset, sender, amount } = moved
  const log = receipt.logs.find((one) => one.logIndex === logIndex)
  if (receipt.status !== 'success' || log === undefined) return false
  const topics: readonly string[] = log.topics
  return (
    (asset === null || log.address.toLowerCase() === asset.toLowerCase()) &&
    topics[0] === TRANSFER_TOPIC &&
    (sender === null || topics[1]?.toLowerCase() === addressTopic(sender)) &&
    BigInt(log.data) === amount
  )
}
