import { getAddress } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import {
  decryptEnvelope,
  encryptEnvelope,
  primaryEncryptionKey,
  type EncryptionKeys,
} from '../../core/crypto.ts'
import type { HexString } from '../payment.ts'

/** A custodial wallet as it is stored: the private key only in its envelope. */
export interface EncryptedWallet {
  /** EIP-55 spelling. */
  readonly address: string
  readonly sealed: Buffer
  /** Names the master key the envelope belongs to. */
  readonly keyId: string
}

/** The one spelling of an EVM address in answers (EIP-55). */
export const toChecksumAddress = (address: string): string => getAddress(address)

/** A new random key of its own for an agent; the envelope opens only for this agent and address. */
export function createCustodialWallet(sealing: EncryptionKeys, agentId: string): EncryptedWallet {
  const privateKey = generatePrivateKey()
  const address = privateKeyToAddress(privateKey)
  const sealed = encryptEnvelope(sealing, Buffer.from(privateKey.slice(2), 'hex'), [
    agentId,
    address,
  ])
  return { address, sealed, keyId: primaryEncryptionKey(sealing).id }
}

/**
 * The private key of a wallet, for the moment of signing or export: keep it in no variable that
 * outlives that, in no log and no error.
 * Throws on another agent, another address, an unknown key or a changed byte.
 */
export function decryptWalletKey(
  sealing: EncryptionKeys,
  agentId: string,
  { address, sealed }: Pick<EncryptedWallet, 'address' | 'sealed'>,
): HexString {
  return `0x${decryptEnvelope(sealing, sealed, [agentId, address]).toString('hex')}`
}
