import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { seal, type SealingKey } from '../core/crypto.ts'

/** A custodial wallet as it is stored: the private key only in its envelope. */
export interface SealedWallet {
  /** EIP-55 spelling. */
  readonly address: string
  readonly sealed: Buffer
  /** Names the master key the envelope belongs to. */
  readonly keyId: string
}

/** A new random key of its own for an agent; the envelope opens only for this agent and address. */
export function createWallet(sealing: SealingKey, agentId: string): SealedWallet {
  const privateKey = generatePrivateKey()
  const address = privateKeyToAddress(privateKey)
  const sealed = seal(sealing, Buffer.from(privateKey.slice(2), 'hex'), [agentId, address])
  return { address, sealed, keyId: sealing.id }
}
