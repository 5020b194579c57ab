import { ServiceError } from '../../core/errors.ts'
import type { ChainName, Hex } from '../chain/port.ts'
import { whole } from '../chain/shapes.ts'
import { tokensOn, type ListedToken } from '../chain/tokens.ts'
import type { ToolContext } from '../define.ts'

/** What one chain says of a wallet. */
export interface WalletOnChain {
  readonly chain: ChainName
  readonly native: 'ETH' | 'POL'
  readonly balance: number
  readonly nonce: number
  readonly isContract: boolean
  /** Milliseconds; null when nothing was sent, or the node keeps no old states. */
  readonly firstSentAt: number | null
  readonly tokens: readonly { token: ListedToken; amount: number }[]
  readonly movements: readonly {
    readonly chain: ChainName
    readonly tx_hash: string
    readonly block_number: number
    readonly direction: 'in' | 'out'
    readonly token: string
    readonly amount: number
    readonly counterparty: string
  }[]
}

const ETHER = 18

/** Null for a chain that does not answer. */
export async function lookAt(
  name: ChainName,
  address: Hex,
  { chain, signal }: Pick<ToolContext, 'chain' | 'signal'>,
): Promise<WalletOnChain | null> {
  signal.throwIfAborted()
  try {
    const listed = tokensOn(name)
    const addresses = listed.map((token) => token.address)
    const [account, amounts, movements] = await Promise.all([
      chain.account(name, address),
      chain.balances(name, address, addresses),
      // What moved is an extra: a node that gives no logs is no reason to say nothing.
      chain.movements(name, address, addresses).catch(nothing),
    ])
    const held = listed.flatMap((token, at) => {
      const amount = amounts[at] ?? 0n
      return amount > 0n ? [{ token, amount: whole(amount, token.decimals) }] : []
    })
    const { nonce, balance, isContract } = account
    const sentAt = isContract ? null : await chain.firstSentAt(name, address, nonce).catch(nothing)
    return {
      chain: name,
      native: chain.about(name).native,
      balance: whole(balance, ETHER),
      nonce,
      isContract,
      firstSentAt: sentAt,
      tokens: held,
      movements: (movements ?? []).map((movement) => shown(name, address, listed, movement)),
    }
  } catch (error) {
    if (error instanceof ServiceError) return null
    throw error
  }
}

function nothing(error: unknown): null {
  if (error instanceof ServiceError) return null
  throw error
}

function shown(
  chain: ChainName,
  address: Hex,
  listed: readonly ListedToken[],
  {
    token,
    from,
    to,
    amount,
    hash,
    block,
  }: { token: Hex; from: Hex; to: Hex; amount: bigint; hash: Hex; block: bigint },
): WalletOnChain['movements'][number] {
  const known = listed.find((one) => one.address.toLowerCase() === token.toLowerCase())
  const out = from.toLowerCase() === address.toLowerCase()
  return {
    chain,
    tx_hash: hash,
    block_number: Number(block),
    direction: out ? 'out' : 'in',
    token: known?.symbol ?? token,
    amount: whole(amount, known?.decimals ?? 0),
    counterparty: out ? to : from,
  }
}
