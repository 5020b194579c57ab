/** The chains that tools read. */
export const READABLE_CHAIN_NAMES = ['base', 'ethereum', 'arbitrum', 'optimism', 'polygon'] as const
export type ReadableChainName = (typeof READABLE_CHAIN_NAMES)[number]

export type EvmHex = `0x${string}`

/**
 * Reads of public chains. Amounts are wei or atomic units, addresses EIP-55. What a node that does not
 * answer was asked for rejects with `upstream_error` or `upstream_timeout`, never with a guess.
 */
export interface ChainReader {
  about(chain: ReadableChainName): ReadableChainInfo
  simulate(chain: ReadableChainName, call: SimulatedCall): Promise<CallSimulation>
  /** A signed transaction as it would be sent; `invalid_input` says what is wrong with it. */
  decode(raw: EvmHex): Promise<SignedTransaction>
  /** Hands a signed transaction to the nodes of its chain; `transaction_rejected` says why not. */
  send(chain: ReadableChainName, raw: EvmHex, hash: EvmHex): Promise<TransactionSendResult>
  account(chain: ReadableChainName, address: EvmHex): Promise<OnchainAccount>
  /** When an account first sent something, by its nonce at old blocks; null without an archive. */
  firstSentAt(chain: ReadableChainName, address: EvmHex, nonce: number): Promise<number | null>
  /** What an account has of tokens; null for one that did not say. */
  balances(
    chain: ReadableChainName,
    address: EvmHex,
    tokens: readonly EvmHex[],
  ): Promise<readonly (bigint | null)[]>
  /** Movements of some tokens from or to an account in the latest blocks; null when refused. */
  movements(
    chain: ReadableChainName,
    address: EvmHex,
    tokens: readonly EvmHex[],
  ): Promise<readonly OnchainTokenTransfer[] | null>
  /** The primary ENS name of an address, checked forward too; null when there is none. */
  ensName(address: EvmHex): Promise<string | null>
  /** What an ENS name stands for on Ethereum; null when nothing. */
  ensAddress(name: string): Promise<EvmHex | null>
  token(chain: ReadableChainName, address: EvmHex): Promise<TokenContractInfo>
  /** Transfers of a token of at least so many atomic units in the latest blocks; null when refused. */
  largeTransfers(
    chain: ReadableChainName,
    token: EvmHex,
    least: bigint,
  ): Promise<readonly OnchainTokenTransfer[] | null>
  /** Null for a block that is not there yet. */
  block(chain: ReadableChainName, number: bigint | 'latest'): Promise<BlockInfo | null>
  /** Null for a transaction that the node does not know. */
  transaction(chain: ReadableChainName, hash: EvmHex): Promise<TransactionInfo | null>
  /** The latest round of a price oracle; null for what is none. */
  round(chain: ReadableChainName, feed: EvmHex): Promise<PriceOracleRound | null>
  /** The EIP-55 spelling; null for what is no address. */
  checksum(address: string): EvmHex | null
}

export interface ReadableChainInfo {
  readonly chainId: number
  /** `local-devnet` when the node is one of this machine. */
  readonly network: 'mainnet' | 'local-devnet'
  /** What fees are paid in. */
  readonly native: 'ETH' | 'POL'
  /** Ends with a slash; a transaction hash follows. */
  readonly explorer: string
}

export interface SimulatedCall {
  readonly to: EvmHex
  readonly data: EvmHex
  readonly value: bigint
  readonly from: EvmHex
}

export interface CallSimulation {
  readonly success: boolean
  /** What to allow it; null when the node would not estimate. */
  readonly gas: bigint | null
  readonly revertReason: string | null
  readonly returnData: EvmHex | null
  readonly logs: readonly { address: EvmHex; topics: readonly EvmHex[]; data: EvmHex }[] | null
  readonly method: 'eth_simulateV1' | 'eth_call'
  readonly block: bigint
  /** Wei a unit of gas: base fee and tip. */
  readonly gasPrice: bigint
  /** What publishing it on Ethereum costs, in wei; zero where there is no such fee, null if unknown. */
  readonly l1Fee: bigint | null
}

export interface SignedTransaction {
  readonly hash: EvmHex
  readonly chainId: number
  readonly from: EvmHex
  /** Null for a contract creation. */
  readonly to: EvmHex | null
  readonly nonce: number
  readonly value: bigint
}

export interface TransactionSendResult {
  readonly status: 'accepted' | 'already_known' | 'included'
  readonly block: bigint | null
}

export interface OnchainAccount {
  readonly balance: bigint
  readonly nonce: number
  readonly isContract: boolean
}

export interface OnchainTokenTransfer {
  readonly token: EvmHex
  readonly from: EvmHex
  readonly to: EvmHex
  readonly amount: bigint
  readonly hash: EvmHex
  readonly block: bigint
}

/** Null for what the contract does not say. */
export interface TokenContractInfo {
  readonly hasCode: boolean
  readonly name: string | null
  readonly symbol: string | null
  readonly decimals: number | null
  readonly supply: bigint | null
  readonly owner: EvmHex | null
  /** The implementation behind an EIP-1967 proxy. */
  readonly implementation: EvmHex | null
}

export interface PriceOracleRound {
  readonly answer: bigint
  readonly decimals: number
  /** Milliseconds since the epoch. */
  readonly updatedAt: number
}

export interface BlockInfo {
  readonly number: bigint
  readonly hash: EvmHex
  /** Seconds since the epoch. */
  readonly timestamp: bigint
  readonly transactions: number
  readonly miner: EvmHex
}

export interface TransactionInfo {
  readonly from: EvmHex
  readonly to: EvmHex | null
  readonly value: bigint
  /** Null while it is pending. */
  readonly block: bigint | null
  readonly success: boolean | null
}
