import { randomBytes } from 'node:crypto'
import { parseAbi, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import type { LocalChain } from '../test/support/chain/local-chain.ts'

/** Funded wallets that sign x402 payment headers. */

type Hex = `0x${string}`

/** A wallet with USDC on the chain and its signing key. */
export type FundedPayerWallet = PrivateKeyAccount

/** A signed payment header: valid once, for any bearer. */
export interface SignedPaymentHeader {
  readonly payer: string
  readonly nonce: Hex
  /** Atomic units of USDC, which equal the micros of the ledger. */
  readonly value: bigint
  /** For `Payment-Signature`: x402 version 2 in its short form, without `accepted`. */
  readonly header: string
}

const EIP712_TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const
const AUTHORIZATION_STATE_ABI = parseAbi([
  'function authorizationState(address, bytes32) view returns (bool)',
])
const VALID_SECONDS = 1_800n
const PAYER_USDC_ATOMIC = 1_000_000_000n

/** Creates payers with more USDC than a proof can spend. */
export async function createFundedPayers(
  chain: LocalChain,
  count: number,
): Promise<FundedPayerWallet[]> {
  const payers = Array.from({ length: count }, () => privateKeyToAccount(generatePrivateKey()))
  for (const { address } of payers) await chain.mint(address, PAYER_USDC_ATOMIC)
  return payers
}

/** Signs from the public interface alone, without code of the service. */
export async function signPaymentHeader(
  payer: FundedPayerWallet,
  chain: LocalChain,
  treasury: Hex,
  value: bigint,
): Promise<SignedPaymentHeader> {
  const now = BigInt(Math.floor(Date.now() / 1000))
  const message = {
    from: payer.address,
    to: treasury,
    value,
    validAfter: 0n,
    validBefore: now + VALID_SECONDS,
    nonce: toHex(randomBytes(32)),
  }
  const { chainId, usdc: verifyingContract } = chain
  const domain = { name: 'USD Coin', version: '2', chainId, verifyingContract }
  const primaryType = 'TransferWithAuthorization'
  const signature = await payer.signTypedData({ domain, types: EIP712_TYPES, primaryType, message })
  const authorization = JSON.parse(
    JSON.stringify(message, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part)),
  ) as object
  const body = { x402Version: 2, payload: { authorization, signature } }
  return {
    payer: payer.address.toLowerCase(),
    nonce: message.nonce,
    value,
    header: Buffer.from(JSON.stringify(body)).toString('base64'),
  }
}

/** Whether the authorization is used on the chain. */
export const isAuthorizationUsed = (
  chain: LocalChain,
  { payer, nonce }: SignedPaymentHeader,
): Promise<boolean> =>
  chain.client.readContract({
    address: chain.usdc,
    abi: AUTHORIZATION_STATE_ABI,
    functionName: 'authorizationState',
    args: [payer as Hex, nonce],
  })
