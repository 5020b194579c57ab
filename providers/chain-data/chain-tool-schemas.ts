import Type from 'typebox'
import { invalidInputError } from '../../core/errors.ts'
import { EVM_ADDRESS_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import {
  READABLE_CHAIN_NAMES,
  type ChainReader,
  type ReadableChainName,
  type EvmHex,
} from './chain-data-port.ts'

/** Schemas and conversions shared by tools that read chains. */

export const ChainNameField = Type.Enum(READABLE_CHAIN_NAMES)
export const EvmAddressField = Type.String({ pattern: EVM_ADDRESS_PATTERN })
export const NullableNumber = Type.Union([Type.Number(), Type.Null()])
export const NullableText = Type.Union([Type.String(), Type.Null()])
export const NetworkKindField = Type.Enum(['mainnet', 'local-devnet'] as const)

/**
 * Returns the EIP-55 spelling of an address; throws for mixed case with a wrong checksum, which indicates a
 * typo.
 */
export function toValidChecksumAddress(
  chain: Pick<ChainReader, 'checksum'>,
  address: string,
  pointer: string,
): EvmHex {
  const right = chain.checksum(address)
  const plain =
    address.slice(2) === address.slice(2).toLowerCase() ||
    address.slice(2) === address.slice(2).toUpperCase()
  if (right !== null && (plain || right === address)) return right
  throw invalidInputError(
    pointer,
    'has a wrong checksum (EIP-55): one of its digits may be mistyped',
  )
}

const GIVEN_DECIMALS = 1_000_000_000n

/** Converts atomic units to a number for display, with about 15 exact digits; exact amounts stay text. */
export function atomicUnitsToNumber(amount: bigint, decimals: number): number {
  const unit = 10n ** BigInt(decimals)
  const [full, rest] = [amount / unit, amount % unit]
  return Number(full) + Number((rest * GIVEN_DECIMALS) / unit) / Number(GIVEN_DECIMALS)
}

/** The provider mode for `_meta`: a local chain is a fixture. */
export const liveOrFixtureModeOfChain = (
  chain: ChainReader,
  name: ReadableChainName,
): 'live' | 'fixture' => (chain.about(name).network === 'local-devnet' ? 'fixture' : 'live')
