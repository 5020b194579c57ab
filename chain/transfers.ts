import { toEventSelector } from 'viem'
import type { EvmClient } from './evm.ts'
import { addressOf, headOf, TRANSFER_TOPIC } from './logs.ts'
import type { Hex } from './payment.ts'
import { receiptOf } from './transactions.ts'

/** One movement of the token inside a transaction; addresses in lower case, atomic units. */
export interface TokenTransfer {
  readonly logIndex: number
  readonly from: string
  readonly to: string
  readonly value: bigint
}

export interface TransactionTransfers {
  /** The block it is in and each one on top of it. */
  readonly confirmations: bigint
  /** Who sent the transaction, in lower case. */
  readonly sender: string
  /** Accounts whose signed authorization it carried out: theirs are payments somebody asked for. */
  readonly authorizers: ReadonlySet<string>
  readonly transfers: readonly TokenTransfer[]
}

const AUTHORIZATION_USED = toEventSelector('AuthorizationUsed(address,bytes32)')

/**
 * What a transaction moved of a token, by the token's own logs; null while no block has it. A
 * reverted one has moved nothing. Throws when the node does not answer.
 */
export async function transfersIn(
  client: EvmClient,
  token: string,
  tx: Hex,
): Promise<TransactionTransfers | null> {
  const [receipt, { head }] = await Promise.all([receiptOf(client, tx), headOf(client)])
  if (receipt === null) return null
  const own = receipt.logs.filter((log) => log.address.toLowerCase() === token.toLowerCase())
  const named = (topic: Hex) => own.filter(({ topics }) => topics[0] === topic)
  const transfers = named(TRANSFER_TOPIC).map(({ topics, data, logIndex }) => ({
    logIndex,
    from: addressOf(topics[1] ?? '0x'),
    to: addressOf(topics[2] ?? '0x'),
    value: BigInt(data),
  }))
  return {
    confirmations: head < receipt.blockNumber ? 0n : head - receipt.blockNumber + 1n,
    sender: receipt.from.toLowerCase(),
    authorizers: new Set(
      named(AUTHORIZATION_USED).map(({ topics }) => addressOf(topics[1] ?? '0x')),
    ),
    transfers: transfers.filter(({ value }) => value > 0n),
  }
}
