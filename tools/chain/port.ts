/** The chains that tools read. */
export const CHAIN_NAMES = ['base', 'ethereum', 'arbitrum', 'optimism', 'polygon'] as const
export type ChainName = (typeof CHAIN_NAMES)[number]

export type Hex = `0x${string}`

/**
 * Reads of public chains. Amounts are wei or atomic units, addresses EIP-55. What a node that does not
 * answer was asked for rejects with `upstream_error` or `upstream_timeout`, never with a guess.
 */
export interface Chain {
  about(chain: ChainName): ChainView
  simulate(chain: ChainName, call: SimulatedCall): Promise<Simulation>
  /** A signed transaction as it would be sent; `invalid_input` says what is wrong with it. */
  decode(raw: Hex): Promise<SignedTransaction>
  /** Hands a signed transaction to the nodes of its chain; `transaction_rejected` says why not. */
  send(chain: ChainName, raw: Hex, hash: Hex): Promise<Sent>
  account(chain: ChainName, address: Hex): Promise<Account>
  /** When an account first sent something, by its nonce at old blocks; null without an archive. */
  firstSentAt(chain: ChainName, address: Hex, nonce: number): Promise<number | null>
  /** What an account has of tokens; null for one that did not say. */
  balances(
    chain: ChainName,
    address: Hex,
    tokens: readonly Hex[],
  ): Promise<readonly (bigint | null)[]>
  /** Movements of some tokens from or to an account in the latest blocks; null when refused. */
  movements(
    chain: ChainName,
    address: Hex,
    tokens: readonly Hex[],
  ): Promise<readonly Movement[] | null>
  /** The primary ENS name of an address, checked forward too; null when there is none. */
  ensName(address: Hex): Promise<string | null>
  /** What an ENS name stands for on Ethereum; null when nothing. */
  ensAddress(name: string): Promise<Hex | null>
  token(chain: ChainName, address: Hex): Promise<TokenFacts>
  /** Transfers of a token of at least so many atomic units in the latest blocks; null when refused. */
  largeTransfers(chain: ChainName, token: Hex, least: bigint): Promise<readonly Movement[] | null>
  /** Null for a block that is not there yet. */
  block(chain: ChainName, number: bigint | 'latest'): Promise<BlockFacts | null>
  /** Null for a transaction that the node does not know. */
  transaction(chain: ChainName, hash: Hex): Promise<TransactionFacts | null>
  /** The latest round of a price oracle; null for what is none. */
  round(chain: ChainName, feed: Hex): Promise<OracleRound | null>
  /** The EIP-55 spelling; null for what is no address. */
  checksum(address: string): Hex | null
}

export interface ChainView {
  readonly chainId: number
  /** `local-devnet` when the node is one of this machine. */
  readonly network: 'mainnet' | 'local-devnet'
  /** What fees are paid in. */
  readonly native: 'ETH' | 'POL'
  /** Ends with a slash; a transaction hash follows. */
  readonly explorer: string
}

export interface SimulatedCall {
  readonly to: Hex
  readonly data: Hex
  readonly value: bigint
  readonly from: Hex
}

export interface Simulation {
  readonly success: boolean
  /** What to allow it; null when the node would not estimate. */
  readonly gas: bigint | null
  readonly revertReason: string | null
  readonly returnData: Hex | null
  readonly logs: readonly { address: Hex; topics: readonly Hex[]; data: Hex }[] | null
  readonly method: 'eth_simulateV1' | 'eth_call'
  readonly block: bigint
  /** Wei a unit of gas: base fee and tip. */
  readonly gasPrice: bigint
  /** What publishing it on Ethereum costs, in wei; zero where there is no such fee, null if unknown. */
  readonly l1Fee: bigint | null
}

export interface SignedTransaction {
  readonly hash: Hex
  readonly chainId: number
  readonly from: Hex
  /** Null for a contract creation. */
  readonly to: Hex | null
  readonly nonce: number
  readonly value: bigint
}

export interface Sent {
  readonly status: 'accepted' | 'already_known' | 'included'
  readonly block: bigint | null
}

export interface Account {
  readonly balance: bigint
  readonly nonce: number
  readonly isContract: boolean
}

export interface Movement {
  readonly token: Hex
  readonly from: Hex
  readonly to: Hex
  readonly amount: bigint
  readonly hash: Hex
  readonly block: bigint
}

/** Null for what the contract does not say. */
export interface TokenFacts {
  readonly hasCode: boolean
  readonly name: string | null
  readonly symbol: string | null
  readonly decimals: number | null
  readonly supply: bigint | null
  readonly owner: Hex | null
  /** The implementation behind an EIP-1967 proxy. */
  readonly implementation: Hex | null
}

export interface OracleRound {
  readonly answer: bigint
  readonly decimals: number
  /** Milliseconds since the epoch. */
  readonly updatedAt: number
}

export interface BlockFacts {
  readonly number: bigint
  readonly hash: Hex
  /** Seconds since the epoch. */
  readonly timestamp: bigint
  readonly transactions: number
  readonly miner: Hex
}

export interface TransactionFacts {
  readonly from: Hex
  readonly to: Hex | null
  readonly value: bigint
  /** Null while it is pending. */
  readonly block: bigint | null
  readonly success: boolean | null
}
