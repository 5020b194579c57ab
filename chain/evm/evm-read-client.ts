import {
  type BaseError,
  type Chain,
  createPublicClient,
  defineChain,
  fallback,
  type FallbackTransport,
  http,
  HttpRequestError,
  type PublicClient,
  TimeoutError,
} from 'viem'
import { ServiceError } from '../../core/errors.ts'
import {
  findRpcError,
  isLocalEvmNode,
  isEvmNodeOrConnectionFailure,
  toRedactedNodeNameAndFetch,
} from './evm-client.ts'

/** Clients of chains that are only read, over several nodes. */

export type EvmReadClient = PublicClient<FallbackTransport, Chain>

/** A read-only chain. */
export interface EvmReadChain {
  readonly chainId: number
  readonly native: 'ETH' | 'POL'
  /** Its transactions are published on Ethereum for an extra fee. */
  readonly opStack: boolean
  readonly explorer: string
  /**
   * Public nodes, used unless the operator sets others: those of viem 2.57.1, and for Ethereum one
   * more of ethereum-lists/chains (checked in 2026-11).
   */
  readonly publicUrls: readonly string[]
}

const explorer = (host: string) => `https://${host}/tx/`

export const EVM_READ_CHAINS = {
  base: {
    chainId: 8453,
    native: 'ETH',
    opStack: true,
    explorer: explorer('basescan.org'),
    publicUrls: ['https://mainnet.base.org'],
  },
  ethereum: {
    chainId: 1,
    native: 'ETH',
    opStack: false,
    explorer: explorer('etherscan.io'),
    publicUrls: ['https://ethereum.reth.rs/rpc', 'https://ethereum-rpc.publicnode.com'],
  },
  arbitrum: {
    chainId: 42161,
    native: 'ETH',
    opStack: false,
    explorer: explorer('arbiscan.io'),
    publicUrls: ['https://arb1.arbitrum.io/rpc'],
  },
  optimism: {
    chainId: 10,
    native: 'ETH',
    opStack: true,
    explorer: explorer('optimistic.etherscan.io'),
    publicUrls: ['https://mainnet.optimism.io'],
  },
  polygon: {
    chainId: 137,
    native: 'POL',
    opStack: false,
    explorer: explorer('polygonscan.com'),
    publicUrls: ['https://polygon.drpc.org'],
  },
} as const satisfies Record<string, EvmReadChain>

const TIMEOUT_MS = 4_000
/** Public nodes accept no larger batches. */
const BATCH = 20

/** Creates a client of a chain's nodes: each is tried once, in order, until one answers. */
export function createEvmReadClient(
  chainId: number,
  urls: readonly string[],
  timeoutMs = TIMEOUT_MS,
): EvmReadClient {
  const transports = urls.map((url) => {
    const { shown, fetchFn } = toRedactedNodeNameAndFetch(url, chainId)
    const batch = { batchSize: BATCH }
    return http(shown, { batch, retryCount: 0, timeout: timeoutMs, fetchFn })
  })
  return createPublicClient({
    chain: defineChain({
      id: chainId,
      name: `eip155:${chainId}`,
      nativeCurrency: { name: 'native', symbol: 'native', decimals: 18 },
      rpcUrls: { default: { http: [] } },
    }),
    transport: fallback(transports, { rank: false, retryCount: 0 }),
    cacheTime: 0,
  })
}

export const evmNetworkKindOfNodeUrls = (urls: readonly string[]): 'mainnet' | 'local-devnet' =>
  urls.every(isLocalEvmNode) ? 'local-devnet' : 'mainnet'

/** Converts node failures into public errors; a revert stays unchanged. */
export async function withEvmNodeFailuresAsServiceErrors<T>(
  name: string,
  work: Promise<T>,
): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!isEvmNodeOrConnectionFailure(error)) throw error
    throw toNodeServiceError(error as BaseError, `rpc:${name}`)
  }
}

const LIMITED_SECONDS = 30

/** Adds the HTTP status of the node to the error. */
function toNodeServiceError(error: BaseError, provider: string): ServiceError {
  if (isTimeout(error)) return new ServiceError('upstream_timeout', { provider }, error)
  const refused = error.walk((one) => one instanceof HttpRequestError)
  const status = refused instanceof HttpRequestError ? refused.status : undefined
  if (status === 429)
    return new ServiceError(
      'upstream_rate_limited',
      { provider, retry_after: LIMITED_SECONDS },
      error,
    )
  if (status !== undefined && status >= 400)
    return new ServiceError('upstream_error', { provider, upstream_status: status }, error)
  const isStrange = error.walk((one) => one instanceof SyntaxError) !== null
  return new ServiceError(isStrange ? 'upstream_schema' : 'upstream_error', { provider }, error)
}

const isTimeout = (error: Error): boolean =>
  error instanceof TimeoutError ||
  (error.cause instanceof Error && error.cause !== error && isTimeout(error.cause))

/** Null if the node refuses the request; rejects if it does not answer. */
export async function nullIfEvmNodeRefuses<T>(work: Promise<T>): Promise<T | null> {
  try {
    return await work
  } catch (error) {
    if (findRpcError(error) !== null) return null
    throw error
  }
}
