/** Chains that tools can read. */
export const READABLE_CHAIN_NAMES = ['base', 'ethereum', 'arbitrum', 'optimism', 'polygon'] as const
export type ReadableChainName = (typeof READABLE_CHAIN_NAMES)[number]

export type EvmHex = `0x${string}`

/**
 * Reads public chains. Amounts are wei or atomic units, addresses EIP-55. Rejects with `upstream_error` or
 * `upstream_timeout` when a node does not answer; never guesses.
 */
export interface ChainReader {
  about(chain: ReadableChainName): ReadableChainInfo
  simulate(chain: ReadableChainName, call: EvmCallToSimulate): Promise<EvmCallSimulationResult>
  /** Decodes a signed transaction; throws `invalid_input` for an invalid one. */
  decode(raw: EvmHex): Promise<SignedTransaction>
  /**
   * Sends a signed transaction to the nodes of its chain; throws `transaction_rejected` with their reason.
   */
  send(chain: ReadableChainName, raw: EvmHex, hash: EvmHex): Promise<TransactionSendResult>
  account(chain: ReadableChainName, address: EvmHex): Promise<OnchainAccount>
  /**
   * Returns when an account sent its first transaction, by its nonce at old blocks; null without an archive
   * node.
   */
  firstSentAt(chain: ReadableChainName, address: EvmHex, nonce: number): Promise<number | null>
  /** Returns token balances of an account; null for a token that did not answer. */
  balances(
    chain: ReadableChainName,
    address: EvmHex,
    tokens: readonly EvmHex[],
  ): Promise<readonly (bigint | null)[]>
  /** Returns transfers of some tokens from or to an account in the latest blocks; null when refused. */
  movements(
    chain: ReadableChainName,
    address: EvmHex,
    tokens: readonly EvmHex[],
  ): Promise<readonly OnchainTokenTransfer[] | null>
  /** Returns the primary ENS name of an address, verified forward; null for none. */
  ensName(address: EvmHex): Promise<string | null>
  /** Returns the Ethereum address of an ENS name; null for none. */
  ensAddress(name: string): Promise<EvmHex | null>
  token(chain: ReadableChainName, address: EvmHex): Promise<TokenContractInfo>
  /** Returns transfers of a token above an amount of atomic units in the latest blocks; null when refused. */
  largeTransfers(
    chain: ReadableChainName,
    token: EvmHex,
    minAmount: bigint,
  ): Promise<readonly OnchainTokenTransfer[] | null>
  /** Returns null for a future block. */
  block(chain: ReadableChainName, number: bigint | 'latest'): Promise<BlockInfo | null>
  /** Returns the base fee per unit of gas of the latest block, in wei; zero on a chain without one. */
  baseFee(chain: ReadableChainName): Promise<{ baseFeeWei: bigint; block: bigint }>
  /** Returns null for a transaction unknown to the node. */
  transaction(chain: ReadableChainName, hash: EvmHex): Promise<OnchainTransactionInfo | null>
  /** Returns the latest round of a price oracle; null for another contract. */
  round(chain: ReadableChainName, feed: EvmHex): Promise<PriceOracleRound | null>
  /** Returns the EIP-55 spelling; null for an invalid address. */
  checksum(address: string): EvmHex | null
}

export interface ReadableChainInfo {
  readonly chainId: number
  /** `local-devnet` when the node runs on this machine. */
  readonly network: 'mainnet' | 'local-devnet'
  /** The token of its fees. */
  readonly native: 'ETH' | 'POL'
  /** Prefix of a transaction hash in the explorer, ending with a slash. */
  readonly explorer: string
}

export interface EvmCallToSimulate {
  readonly to: EvmHex
  readonly data: EvmHex
  readonly value: bigint
  readonly from: EvmHex
}

export interface EvmCallSimulationResult {
  readonly success: boolean
  /** Gas limit; null when the node gives no estimate. */
  readonly gas: bigint | null
  readonly revertReason: string | null
  readonly returnData: EvmHex | null
  readonly logs: readonly { address: EvmHex; topics: readonly EvmHex[]; data: EvmHex }[] | null
  readonly method: 'eth_simulateV1' | 'eth_call'
  readonly block: bigint
  /** Wei per unit of gas: base fee and tip. */
  readonly gasPrice: bigint
  /** Cost of publication on Ethereum in wei; zero on chains without that fee, null if unknown. */
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

/** Null for fields that the contract lacks. */
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

export interface OnchainTransactionInfo {
  readonly from: EvmHex
  readonly to: EvmHex | null
  readonly value: bigint
  /** Null while it is pending. */
  readonly block: bigint | null
  readonly success: boolean | null
}
