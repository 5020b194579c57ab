import {
  BaseError,
  type Chain,
  createPublicClient,
  decodeErrorResult,
  defineChain,
  http,
  HttpRequestError,
  type HttpTransport,
  parseAbi,
  type PublicClient,
  RpcRequestError,
  TimeoutError,
  UnknownRpcError,
} from 'viem'
import { findJsonShapeFault } from '../../core/validation/safe-json.ts'
import { readAtMost } from '../json-http-client.ts'
import type { HexString } from '../onchain-payment-types.ts'

/** A JSON-RPC client for one EVM node, and the classification of its errors. */

export type EvmClient = PublicClient<HttpTransport, Chain>

export interface EvmClientOptions {
  readonly rpcUrl: string
  readonly chainId: number
  readonly timeoutMs?: number
}

export interface EvmCall {
  readonly to: string
  readonly data: HexString
  readonly from?: string
  /** Gas limit of the call; by default the node's. */
  readonly gas?: bigint
  /** Gas price of the call; none by default, which contract code can detect. */
  readonly fees?: Eip1559Fees
}

/** Wei per unit of gas, EIP-1559. */
export interface Eip1559Fees {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

const TIMEOUT_MS = 10_000
const POLL_MS = { local: 50, remote: 1_000 }

/**
 * Creates a client of one node: requests of one turn of the event loop are sent as one JSON-RPC
 * batch, without retries or caches. Callers interpret failures.
 */
export function createEvmClient({
  rpcUrl,
  chainId,
  timeoutMs = TIMEOUT_MS,
}: EvmClientOptions): EvmClient {
  const local = isLocalEvmNode(rpcUrl)
  const { shown, fetchFn } = toRedactedNodeNameAndFetch(rpcUrl, chainId)
  return createPublicClient({
    chain: defineChain({
      id: chainId,
      name: `eip155:${chainId}`,
      nativeCurrency: { name: 'native', symbol: 'native', decimals: 18 },
      rpcUrls: { default: { http: [shown] } },
    }),
    transport: http(shown, { batch: true, retryCount: 0, timeout: timeoutMs, fetchFn }),
    pollingInterval: local ? POLL_MS.local : POLL_MS.remote,
    cacheTime: 0,
  })
}

/** Whether the node runs on this machine: a private chain, whatever its number. */
export const isLocalEvmNode = (rpcUrl: string): boolean =>
  /^(localhost|127\.0\.0\.1|\[::1\])$/.test(new URL(rpcUrl).hostname)

/**
 * A node's public name: its host, since the path of a hosted node is its key. The chain's number
 * keeps two chains of one host in separate batches.
 */
export function toRedactedNodeNameAndFetch(rpcUrl: string, chainId: number) {
  const url = new URL(rpcUrl)
  const { username, password } = url
  url.username = url.password = ''
  const signIn = `Basic ${btoa(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`)}`
  const fetchFn = async (_: unknown, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers)
    if (username !== '') headers.set('authorization', signIn)
    const response = await fetch(url, { ...init, headers })
    return response.ok ? toCheckedAnswer(response) : response
  }
  return { shown: `${url.origin}/#${chainId}`, fetchFn }
}

/** The logs of many blocks fit. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024

/** Throws a `SyntaxError` for what is no answer of JSON-RPC, which viem would take apart. */
async function toCheckedAnswer(response: Response): Promise<Response> {
  const { status } = response
  const bytes = await readAtMost(response, MAX_ANSWER_BYTES)
  const fault = findJsonShapeFault(bytes, Infinity)
  if (fault !== null) throw new SyntaxError(`the answer ${fault}`)
  const value: unknown = JSON.parse(bytes.toString('utf8'))
  if (![value].flat().every(isObject)) throw new SyntaxError('the answer is none of JSON-RPC')
  return new Response(bytes, { status, headers: { 'content-type': 'application/json' } })
}

const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null

/** Runs a call on the node without sending it; throws the node's error. */
export async function ethCall(
  client: EvmClient,
  { to, data, from, gas, fees }: EvmCall,
  block: bigint | 'latest' = 'latest',
): Promise<HexString> {
  const more = {
    ...(from !== undefined && { from }),
    ...(gas !== undefined && { gas: hex(gas) }),
    ...(fees !== undefined && {
      maxFeePerGas: hex(fees.maxFeePerGas),
      maxPriorityFeePerGas: hex(fees.maxPriorityFeePerGas),
    }),
  }
  const call = { to, data, ...more } as { to: HexString; data: HexString }
  const at = block === 'latest' ? block : hex(block)
  return client.request({ method: 'eth_call', params: [call, at] })
}

const hex = (number: bigint): HexString => `0x${number.toString(16)}`

/** Whether an address has code; do not cache it: EIP-7702 may add code at any time. */
export async function hasContractCode(client: EvmClient, address: string): Promise<boolean> {
  const params = [address as HexString, 'latest'] as const
  const code = await client.request({ method: 'eth_getCode', params: [...params] })
  return code !== undefined && code.length > 2
}

/** Null if a call would succeed, else why it reverts; throws if the node did not run it. */
export async function simulateCallForRevertReason(
  client: EvmClient,
  call: EvmCall,
  block: bigint | 'latest' = 'latest',
): Promise<string | null> {
  try {
    await ethCallWithFees(client, call, block)
    return null
  } catch (error) {
    const reason = revertReasonFromError(error)
    if (reason === null) throw error
    return reason
  }
}

/**
 * Simulates a call with fees. A sender without funds, or fees below the block's, keep a transaction
 * out of blocks at no cost: then the call is simulated without fees.
 */
export async function ethCallWithFees(
  client: EvmClient,
  call: EvmCall,
  block: bigint | 'latest' = 'latest',
): Promise<HexString> {
  try {
    return await ethCall(client, call, block)
  } catch (error) {
    if (call.fees === undefined || !UNPAYABLE.test(findRpcError(error)?.details ?? '')) throw error
    const { fees: _unpayable, ...unpriced } = call
    return ethCall(client, unpriced, block)
  }
}

/** Node errors for senders without funds, and for fees below those of the block. */
const UNPAYABLE =
  /insufficient funds|lack of funds|fee.{0,20}(less|lower) than.{0,12}base ?fee|basefee/i

const REVERTED = 3
/** Node errors for code that stopped without a revert. */
const HALTED =
  /revert|EVM error|out of gas|gas required exceeds|invalid (opcode|jump)|stack (under|over)flow|write protection/i

/** The reason of a revert; null for any other error. */
export function revertReasonFromError(error: unknown): string | null {
  const answer = findRpcError(error)
  if (answer === null) return null
  const data = dataOf(answer.data)
  const ran = answer.code === REVERTED || data !== null || HALTED.test(answer.details)
  return ran ? (decoded(data) ?? answer.details) : null
}

/**
 * Whether the node failed: unreachable, timed out, rate limited, or an answer that is no result of
 * the request. A revert is a result.
 */
export function isRpcUnavailable(error: unknown): boolean {
  if (!(error instanceof BaseError)) return false
  if (error.walk(isUnanswered) !== null) return true
  const answer = findRpcError(error)
  if (answer === null || revertReasonFromError(error) !== null) return false
  return NODE_ERROR_CODES.has(answer.code) && !EXPIRED_TRANSACTION.test(answer.details)
}

/**
 * Tempo nodes report an expired or not yet valid transaction as an internal error (-32603). A retry
 * would change nothing.
 */
const EXPIRED_TRANSACTION =
  /transaction (is |has )?expired|expiring ?nonce|valid_?(before|after)|not (yet )?valid/i

/**
 * Parse error, internal error, resource unavailable or not found, limits: the node's own failures.
 */
const NODE_ERROR_CODES = new Set([-32700, -32603, -32001, -32002, -32005, -32016, 429])

// UnknownRpcError: the reply to the batch is not a batch
const isUnanswered = (error: unknown): boolean =>
  error instanceof HttpRequestError ||
  error instanceof TimeoutError ||
  error instanceof UnknownRpcError

/** Any failure of the node or the connection: everything but a result of the call. */
export const isEvmNodeOrConnectionFailure = (error: unknown): boolean =>
  error instanceof BaseError && revertReasonFromError(error) === null

/** The error object of the node's reply; null if there was none. */
export function findRpcError(error: unknown): RpcRequestError | null {
  if (!(error instanceof BaseError)) return null
  const found = error.walk((one) => one instanceof RpcRequestError)
  return found instanceof RpcRequestError ? found : null
}

function dataOf(data: unknown): HexString | null {
  if (typeof data === 'string')
    return /^0x([0-9a-f]{2}){4,}$/i.test(data) ? (data as HexString) : null
  if (typeof data !== 'object' || data === null || !('data' in data)) return null
  return dataOf(data.data) // some nodes nest it once more
}

/** Errors without a text of their own: those of Permit2 and of its x402 proxy. */
const ERRORS = parseAbi([
  'error InvalidNonce()',
  'error SignatureExpired(uint256 signatureDeadline)',
  'error InvalidAmount(uint256 maxAmount)',
  'error InvalidAmount()',
  'error InvalidSigner()',
  'error InvalidSignature()',
  'error InvalidSignatureLength()',
  'error InvalidContractSignature()',
  'error InvalidDestination()',
  'error InvalidOwner()',
  'error PaymentTooEarly()',
])

function decoded(data: HexString | null): string | null {
  if (data === null) return null
  try {
    const { errorName, args } = decodeErrorResult({ abi: ERRORS, data })
    return errorName === ('Error' as string) ? String(args?.[0]) : errorName
  } catch {
    return data // an unknown contract error
  }
}
