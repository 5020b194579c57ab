import { erc20Abi, numberToHex, type Hex } from 'viem'
import { isRpcUnavailable } from './evm-client.ts'
import { nullIfEvmNodeRefuses, type EvmReadClient } from './evm-read-client.ts'

/** Reads accounts: first transaction and token balances. */

/** EIP-7702: a delegating account is not a contract. */
const DELEGATION = /^0xef0100[0-9a-f]{40}$/i

export async function readEvmAccount(client: EvmReadClient, address: Hex) {
  const [balance, nonce, code] = await Promise.all([
    client.getBalance({ address }),
    client.getTransactionCount({ address, blockTag: 'latest' }),
    client.getCode({ address }),
  ])
  return { balance, nonce, isContract: code !== undefined && !DELEGATION.test(code) }
}

/** Search points per round, in one batch. */
const SEARCH_POINTS = 7n

/**
 * The time (milliseconds) of the block after which the nonce was first above zero: each round
 * narrows the search to an eighth. Null if nothing was sent, or the node lacks old states.
 */
export async function findFirstTransactionTime(
  client: EvmReadClient,
  address: Hex,
  nonce: number,
): Promise<number | null> {
  if (nonce === 0) return null
  // Every contract starts with a nonce of 1, and most nodes reject queries of old states.
  const head = await client.getBlockNumber()
  let [unsent, sent] = [-1n, head]
  while (sent - unsent > 1n) {
    const points = between(unsent, sent)
    const counts = await nullIfEvmNodeRefuses(
      Promise.all(points.map((at) => countAt(client, address, at))),
    )
    if (counts === null) return null
    const first = counts.findIndex((count) => count > 0)
    const [low, high] = [points[first - 1], points[first]]
    if (first === -1) unsent = points.at(-1) ?? unsent
    else {
      sent = high ?? sent
      unsent = low ?? unsent
    }
  }
  const { timestamp } = await client.getBlock({ blockNumber: sent })
  return Number(timestamp) * 1_000
}

function between(low: bigint, high: bigint): bigint[] {
  const gap = high - low
  const steps = gap - 1n < SEARCH_POINTS ? gap - 1n : SEARCH_POINTS
  return Array.from(
    { length: Number(steps) },
    (_, at) => low + (gap * BigInt(at + 1)) / (steps + 1n),
  )
}

async function countAt(client: EvmReadClient, address: Hex, block: bigint): Promise<number> {
  const params = [address, numberToHex(block)] as [Hex, Hex]
  return Number(await client.request({ method: 'eth_getTransactionCount', params }))
}

/** The account's balance of each token; null for a token that did not answer. */
export async function readTokenBalances(
  client: EvmReadClient,
  address: Hex,
  tokens: readonly Hex[],
): Promise<(bigint | null)[]> {
  return Promise.all(
    tokens.map((token) =>
      client
        .readContract({
          address: token,
          abi: erc20Abi,
          functionName: 'balanceOf',
          args: [address],
        })
        .catch((error: unknown) => {
          if (isRpcUnavailable(error)) throw error
          return null // no contract, or it reverts
        }),
    ),
  )
}
