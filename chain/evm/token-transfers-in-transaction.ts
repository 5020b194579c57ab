import { toEventSelector } from 'viem'
import type { EvmClient } from './evm-client.ts'
import { topicToAddress, readChainHead, ERC20_TRANSFER_TOPIC } from './evm-event-logs.ts'
import type { HexString } from '../onchain-payment-types.ts'
import { findTransactionReceipt } from './settler-evm-transactions.ts'

/** One transfer of the token within a transaction; addresses in lower case, atomic units. */
export interface TokenTransfer {
  readonly logIndex: number
  readonly from: string
  readonly to: string
  readonly value: bigint
}

export interface TransactionTransfers {
  /** Blocks from its own to the latest, both included. */
  readonly confirmations: bigint
  /** The sender of the transaction, in lower case. */
  readonly sender: string
  /** Accounts whose signed authorization it carried out: their transfers are requested payments. */
  readonly authorizers: ReadonlySet<string>
  readonly transfers: readonly TokenTransfer[]
}

const AUTHORIZATION_USED = toEventSelector('AuthorizationUsed(address,bytes32)')

/**
 * The token's transfers in a transaction, from its logs; null while it is in no block. A reverted
 * one has none. Throws if the node does not answer.
 */
export async function readTransactionTransfers(
  client: EvmClient,
  token: string,
  tx: HexString,
): Promise<TransactionTransfers | null> {
  const [receipt, { head }] = await Promise.all([
    findTransactionReceipt(client, tx),
    readChainHead(client),
  ])
  if (receipt === null) return null
  const own = receipt.logs.filter((log) => log.address.toLowerCase() === token.toLowerCase())
  const named = (topic: HexString) => own.filter(({ topics }) => topics[0] === topic)
  const transfers = named(ERC20_TRANSFER_TOPIC).map(({ topics, data, logIndex }) => ({
    logIndex,
    from: topicToAddress(topics[1] ?? '0x'),
    to: topicToAddress(topics[2] ?? '0x'),
    value: BigInt(data),
  }))
  return {
    confirmations: head < receipt.blockNumber ? 0n : head - receipt.blockNumber + 1n,
    sender: receipt.from.toLowerCase(),
    authorizers: new Set(
      named(AUTHORIZATION_USED).map(({ topics }) => topicToAddress(topics[1] ?? '0x')),
    ),
    transfers: transfers.filter(({ value }) => value > 0n),
  }
}
