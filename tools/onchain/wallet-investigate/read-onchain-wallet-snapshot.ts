import { ServiceError } from '../../../core/errors.ts'
import type { ReadableChainName, EvmHex } from '../../../providers/chain-data/chain-data-port.ts'
import { atomicUnitsToNumber } from '../../../providers/chain-data/chain-tool-schemas.ts'
import {
  widelyHeldTokensOnChain,
  type WidelyHeldToken,
} from '../../../providers/chain-data/bundled-token-contract-list.ts'
import type { ToolContext } from '../../define-tool.ts'

/** The state of a wallet on one chain. */
export interface WalletSnapshot {
  readonly chain: ReadableChainName
  readonly native: 'ETH' | 'POL'
  readonly balance: number
  readonly nonce: number
  readonly isContract: boolean
  /** Milliseconds; null when nothing was sent, or the node has no old states. */
  readonly firstSentAt: number | null
  readonly tokens: readonly { token: WidelyHeldToken; amount: number }[]
  readonly movements: readonly {
    readonly chain: ReadableChainName
    readonly tx_hash: string
    readonly block_number: number
    readonly direction: 'in' | 'out'
    readonly token: string
    readonly amount: number
    readonly counterparty: string
  }[]
}

const ETHER_DECIMALS = 18

/** Returns null for a chain that does not answer. */
export async function readWalletSnapshot(
  name: ReadableChainName,
  address: EvmHex,
  { chain, signal }: Pick<ToolContext, 'chain' | 'signal'>,
): Promise<WalletSnapshot | null> {
  signal.throwIfAborted()
  try {
    const listed = widelyHeldTokensOnChain(name)
    const addresses = listed.map((token) => token.address)
    const [account, amounts, movements] = await Promise.all([
      chain.account(name, address),
      chain.balances(name, address, addresses),
      // Movements are optional: a node without logs must not fail the whole result.
      chain.movements(name, address, addresses).catch(nullIfUnavailable),
    ])
    const held = listed.flatMap((token, at) => {
      const amount = amounts[at] ?? 0n
      return amount > 0n ? [{ token, amount: atomicUnitsToNumber(amount, token.decimals) }] : []
    })
    const { nonce, balance, isContract } = account
    const sentAt = isContract
      ? null
      : await chain.firstSentAt(name, address, nonce).catch(nullIfUnavailable)
    return {
      chain: name,
      native: chain.about(name).native,
      balance: atomicUnitsToNumber(balance, ETHER_DECIMALS),
      nonce,
      isContract,
      firstSentAt: sentAt,
      tokens: held,
      movements: (movements ?? []).map((movement) =>
        toWalletMovement(name, address, listed, movement),
      ),
    }
  } catch (error) {
    if (error instanceof ServiceError) return null
    throw error
  }
}

function nullIfUnavailable(error: unknown): null {
  if (error instanceof ServiceError) return null
  throw error
}

function toWalletMovement(
  chain: ReadableChainName,
  address: EvmHex,
  listed: readonly WidelyHeldToken[],
  {
    token,
    from,
    to,
    amount,
    hash,
    block,
  }: { token: EvmHex; from: EvmHex; to: EvmHex; amount: bigint; hash: EvmHex; block: bigint },
): WalletSnapshot['movements'][number] {
  const known = listed.find((one) => one.address.toLowerCase() === token.toLowerCase())
  const out = from.toLowerCase() === address.toLowerCase()
  return {
    chain,
    tx_hash: hash,
    block_number: Number(block),
    direction: out ? 'out' : 'in',
    token: known?.symbol ?? token,
    amount: atomicUnitsToNumber(amount, known?.decimals ?? 0),
    counterparty: out ? to : from,
  }
}
