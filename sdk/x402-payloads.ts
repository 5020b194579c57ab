import type { X402Entry } from './payment-terms.ts'

/** Makes the payloads of x402: EIP-3009 and Permit2, which any account signs, and Solana, by a signer of its own. */

/** What EIP-712 signs; accounts of viem and ethers take it. */
export interface TypedDataToSign {
  readonly domain: {
    readonly name: string
    readonly version?: string
    readonly chainId: number
    readonly verifyingContract: `0x${string}`
  }
  readonly types: Record<string, readonly { readonly name: string; readonly type: string }[]>
  readonly primaryType: string
  readonly message: Record<string, unknown>
}

export interface X402Signer {
  readonly address: string
  signTypedData(data: TypedDataToSign): Promise<string>
}

/** A transfer of tokens on Solana, to be signed. */
export interface SolanaTransfer {
  readonly network: string
  /** The mint of the token. */
  readonly asset: string
  readonly payTo: string
  /** Atomic units. */
  readonly amount: string
  /** The account that pays the fee: the facilitator of the station, which signs last. */
  readonly feePayer: string
}

/**
 * Makes a Solana transaction of exactly this transfer, signed by the payer, as base64. It takes a library of
 * Solana, which this package does not bring.
 */
export interface SolanaSigner {
  createTransaction(transfer: SolanaTransfer): Promise<string>
}

/** How an entry is paid. */
type X402TransferMethod = 'eip3009' | 'permit2' | 'solana'

export function transferMethodOf({
  network,
  extra,
}: Pick<X402Entry, 'network' | 'extra'>): X402TransferMethod {
  if (network.startsWith('solana:')) return 'solana'
  return extra?.['assetTransferMethod'] === 'permit2' ? 'permit2' : 'eip3009'
}

/** The longest validity that is signed, whatever a 402 asks for. */
const MAX_VALIDITY_S = 600
/** One address on every chain. */
const PERMIT2_ADDRESS = '0x000000000022d473030f116ddee9f6b43ac78ba3'
/** The contract of x402 that may use the permit: it pays the signed address only. */
const X402_PERMIT2_PROXY = '0x402085c248eea27d92e8b30b2c58ed07f9e20001'

const TRANSFER_TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const

const PERMIT_TYPES = {
  PermitWitnessTransferFrom: [
    { name: 'permitted', type: 'TokenPermissions' },
    { name: 'spender', type: 'address' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
    { name: 'witness', type: 'Witness' },
  ],
  TokenPermissions: [
    { name: 'token', type: 'address' },
    { name: 'amount', type: 'uint256' },
  ],
  Witness: [
    { name: 'to', type: 'address' },
    { name: 'validAfter', type: 'uint256' },
  ],
} as const

const randomWord = (): `0x${string}` => {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(32))
  return `0x${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

const chainIdOf = ({ network }: X402Entry): number => Number(network.split(':')[1])
/** The end of the validity, in seconds. */
const endOf = ({ maxTimeoutSeconds }: X402Entry, now: number): string =>
  String(now + Math.min(Math.trunc(maxTimeoutSeconds), MAX_VALIDITY_S))

/** Signs `TransferWithAuthorization` (EIP-3009). */
export async function signTransfer(signer: X402Signer, entry: X402Entry, now: number) {
  const { name, version } = entry.extra as { name: string; version: string }
  const authorization = {
    from: signer.address,
    to: entry.payTo,
    value: entry.amount,
    validAfter: '0',
    validBefore: endOf(entry, now),
    nonce: randomWord(),
  }
  const signature = await signer.signTypedData({
    domain: {
      name,
      version,
      chainId: chainIdOf(entry),
      verifyingContract: entry.asset as `0x${string}`,
    },
    types: TRANSFER_TYPES,
    primaryType: 'TransferWithAuthorization',
    message: {
      ...authorization,
      value: BigInt(authorization.value),
      validAfter: 0n,
      validBefore: BigInt(authorization.validBefore),
    },
  })
  return { signature, authorization }
}

/** Signs a permit for one transfer to the payee. The payer has approved Permit2 for the token before. */
export async function signPermit(signer: X402Signer, entry: X402Entry, now: number) {
  const permit2Authorization = {
    from: signer.address,
    permitted: { token: entry.asset, amount: entry.amount },
    spender: X402_PERMIT2_PROXY,
    nonce: BigInt(randomWord()).toString(),
    deadline: endOf(entry, now),
    witness: { to: entry.payTo, validAfter: '0' },
  }
  const { permitted, spender, nonce, deadline, witness } = permit2Authorization
  const signature = await signer.signTypedData({
    domain: { name: 'Permit2', chainId: chainIdOf(entry), verifyingContract: PERMIT2_ADDRESS },
    types: PERMIT_TYPES,
    primaryType: 'PermitWitnessTransferFrom',
    message: {
      permitted: { token: permitted.token, amount: BigInt(permitted.amount) },
      spender,
      nonce: BigInt(nonce),
      deadline: BigInt(deadline),
      witness: { to: witness.to, validAfter: 0n },
    },
  })
  return { signature, permit2Authorization }
}

/** Has a transfer on Solana signed. */
export async function signSolanaTransfer(
  signer: SolanaSigner,
  { network, asset, payTo, amount, extra }: X402Entry,
) {
  const feePayer = String(extra?.['feePayer'])
  return {
    transaction: await signer.createTransaction({ network, asset, payTo, amount, feePayer }),
  }
}
