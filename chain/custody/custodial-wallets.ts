import { getAddress } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import {
  decryptEnvelope,
  encryptEnvelope,
  primaryEncryptionKey,
  type EncryptionKeys,
} from '../../core/key-derivation-and-encryption.ts'
import type { HexString } from '../onchain-payment-types.ts'

/** A stored custodial wallet: its private key exists only in the envelope. */
export interface EncryptedWallet {
  /** EIP-55 spelling. */
  readonly address: string
  readonly sealed: Buffer
  /** Names the master key the envelope belongs to. */
  readonly keyId: string
}

/** The spelling of EVM addresses in replies (EIP-55). */
export const toChecksumAddress = (address: string): string => getAddress(address)

/** Creates a wallet with a random key; the envelope is bound to this agent and address. */
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
 * Decrypts a wallet's private key for signing or export: do not keep, log or throw it. Throws on
 * another agent or address, an unknown key or a changed byte.
 */
export function decryptWalletKey(
  sealing: EncryptionKeys,
  agentId: string,
  { address, sealed }: Pick<EncryptedWallet, 'address' | 'sealed'>,
): HexString {
  return `0x${decryptEnvelope(sealing, sealed, [agentId, address]).toString('hex')}`
}
