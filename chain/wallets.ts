import { getAddress } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { open, seal, writingKey, type SealingKeys } from '../core/crypto.ts'
import type { Hex } from './payment.ts'

/** A custodial wallet as it is stored: the private key only in its envelope. */
export interface SealedWallet {
  /** EIP-55 spelling. */
  readonly address: string
  readonly sealed: Buffer
  /** Names the master key the envelope belongs to. */
  readonly keyId: string
}

/** The one spelling of an EVM address in answers (EIP-55). */
export const checksummed = (address: string): string => getAddress(address)

/** A new random key of its own for an agent; the envelope opens only for this agent and address. */
export function createWallet(sealing: SealingKeys, agentId: string): SealedWallet {
  const privateKey = generatePrivateKey()
  const address = privateKeyToAddress(privateKey)
  const sealed = seal(sealing, Buffer.from(privateKey.slice(2), 'hex'), [agentId, address])
  return { address, sealed, keyId: writingKey(sealing).id }
}

/**
 * The private key of a wallet, for the moment of signing or export: keep it in no variable that
 * outlives that, in no log and no error.
 * Throws on another agent, another address, an unknown key or a changed byte.
 */
export function openWallet(
  sealing: SealingKeys,
  agentId: string,
  { address, sealed }: Pick<SealedWallet, 'address' | 'sealed'>,
): Hex {
  return `0x${open(sealing, sealed, [agentId, address]).toString('hex')}`
}
