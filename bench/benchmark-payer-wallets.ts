import { randomBytes } from 'node:crypto'
import { encodeFunctionData, parseAbi } from 'viem'
import { generatePrivateKey, privateKeyToAccount, type PrivateKeyAccount } from 'viem/accounts'
import { MULTICALL3_ADDRESS } from '../chain/evm/multicall.ts'
import { PAYMENT_NETWORKS } from '../chain/payment-networks.ts'
import { signEip3009Authorization } from '../chain/evm/eip3009.ts'
import type { LocalChain } from '../test/support/chain/local-chain.ts'

/** Funded wallets and signed `Payment-Signature` headers for the payment benchmark. */

/** Each wallet is a separate actor of the station, as unrelated payers are. */
const PAYERS = 256
const DOLLARS = 1_000_000_000n
const SECONDS = 1_800

/** An unlocked account of the local node. */
const ANVILS_FIRST = '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266'
const abi = parseAbi([
  'function mint(address to, uint256 value)',
  'function aggregate3((address target, bool allowFailure, bytes callData)[] calls)',
])

/** The terms of one payment, as the header states them. */
export interface BenchmarkPaymentTerms {
  readonly to: string
  readonly amount: bigint
  /** The selected entry of `accepts`; the short form of `Payment-Signature` has none. */
  readonly accepted?: object
}

export type BenchmarkPayerAccounts = readonly PrivateKeyAccount[]

/** Creates wallets with USDC on the local Base chain. */
export async function createFundedBenchmarkPayers(
  base: LocalChain,
): Promise<BenchmarkPayerAccounts> {
  const payers = Array.from({ length: PAYERS }, () => privateKeyToAccount(generatePrivateKey()))
  const mint = (to: `0x${string}`) => ({
    target: base.usdc,
    allowFailure: false,
    callData: encodeFunctionData({ abi, functionName: 'mint', args: [to, DOLLARS] }),
  })
  const hash = await base.client.writeContract({
    account: ANVILS_FIRST,
    address: MULTICALL3_ADDRESS,
    abi,
    functionName: 'aggregate3',
    args: [payers.map(({ address }) => mint(address))],
  })
  const { status } = await base.client.waitForTransactionReceipt({ hash })
  if (status !== 'success') throw new Error('the payers got no money')
  return payers
}

/** Signs `Payment-Signature` headers, each valid for one payment, with the payers in rotation. */
export async function signPaymentHeaders(
  payers: BenchmarkPayerAccounts,
  bill: BenchmarkPaymentTerms,
  count: number,
): Promise<string[]> {
  const headers: string[] = []
  for (let at = 0; at < count; at++) {
    headers.push(await signPayment(payers[at % payers.length] as PrivateKeyAccount, bill))
  }
  return headers
}

async function signPayment(
  payer: PrivateKeyAccount,
  { to, amount, accepted }: BenchmarkPaymentTerms,
) {
  const { asset, domain, chainId } = PAYMENT_NETWORKS.base
  const terms = {
    from: payer.address.toLowerCase(),
    to,
    validAfter: 0n,
    validBefore: BigInt(Math.floor(Date.now() / 1000) + SECONDS),
    nonce: `0x${randomBytes(32).toString('hex')}`,
  } as const
  const token = { address: asset, ...domain, chainId }
  const signature = await signEip3009Authorization(payer, token, { ...terms, value: amount })
  const { validAfter, validBefore, ...rest } = terms
  const times = { validAfter: String(validAfter), validBefore: String(validBefore) }
  const authorization = { ...rest, ...times, value: String(amount) }
  const payload = { authorization, signature }
  const text = JSON.stringify({ x402Version: 2, ...(accepted && { accepted }), payload })
  return Buffer.from(text).toString('base64')
}
