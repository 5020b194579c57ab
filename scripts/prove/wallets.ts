import { randomBytes } from 'node:crypto'
import { parseAbi, toHex } from 'viem'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import type { LocalChain } from '../chain/local-chain.ts'

type Hex = `0x${string}`

/** Somebody with dollars on the chain, and a key that signs for them. */
export type Payer = PrivateKeyAccount

/** What a payer has signed: good for one use, by whoever has the header. */
export interface Authorization {
  readonly payer: string
  readonly nonce: Hex
  /** Atomic units of USDC, which are micros of the ledger. */
  readonly value: bigint
  /** For `Payment-Signature`: x402 version 2 in its short form, without `accepted`. */
  readonly header: string
}

const TYPES = {
  TransferWithAuthorization: [
    { name: 'from', type: 'address' },
    { name: 'to', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'validAfter', type: 'uint256' },
    { name: 'validBefore', type: 'uint256' },
    { name: 'nonce', type: 'bytes32' },
  ],
} as const
const STATE = parseAbi(['function authorizationState(address, bytes32) view returns (bool)'])
const VALID_SECONDS = 1_800n
const RICH = 1_000_000_000n

/** Payers with more than a proof can spend. */
export async function payersOn(chain: LocalChain, count: number): Promise<Payer[]> {
  const payers = Array.from({ length: count }, () => privateKeyToAccount(generatePrivateKey()))
  for (const { address } of payers) await chain.mint(address, RICH)
  return payers
}

/** Signs as a client does that has only read the interface; nothing of the service takes part in it. */
export async function authorize(
  payer: Payer,
  chain: LocalChain,
  treasury: Hex,
  value: bigint,
): Promise<Authorization> {
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
  const signature = await payer.signTypedData({ domain, types: TYPES, primaryType, message })
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

/** Whether the chain has seen an authorization used. */
export const isUsed = (chain: LocalChain, { payer, nonce }: Authorization): Promise<boolean> =>
  chain.client.readContract({
    address: chain.usdc,
    abi: STATE,
    functionName: 'authorizationState',
    args: [payer as Hex, nonce],
  })
