import { add, fromUsdc, micros, type Micros } from './money.ts'
import { FIRST_DEPOSIT_BONUS_BPS } from './prices.ts'

/** `paused`: the wallet is being handed over to its owner and takes nothing any more. */
export type DepositsAre = 'on' | 'off' | 'paused'

/** What anybody may know of an agent who wants to fund it: no amounts, no names of others. */
export interface FundStatus {
  /** EIP-55 spelling; null while it has none that takes deposits. */
  readonly address: string | null
  readonly deposits: DepositsAre
  /** The alert level of its balance. */
  readonly tier: string
  readonly lastDeposit: { readonly state: string; readonly at: Date } | null
}

/** What the funding page shows. */
export interface FundView extends FundStatus {
  readonly agentId: string
  readonly name: string
  /** The contract of USDC. */
  readonly token: string
  readonly chainId: number
}

/** A page with the policy it has to be served under. */
export interface Page {
  readonly html: string
  readonly policy: string
}

/** What the page proposes to send. */
export const SUGGESTED: readonly Micros[] = [1, 5, 20, 50].map((usdc) => fromUsdc(usdc))

/** What a first deposit becomes. */
export const withBonus = (amount: Micros): Micros =>
  add(amount, micros((amount * FIRST_DEPOSIT_BONUS_BPS) / 10_000n))

/** EIP-681: a wallet that reads it fills in token, chain, receiver and, where given, the amount. */
export function paymentUri(
  { token, chainId }: Pick<FundView, 'token' | 'chainId'>,
  address: string,
  amount: Micros | null,
): string {
  const uri = `ethereum:${token}@${chainId}/transfer?address=${address}`
  return amount === null ? uri : `${uri}&uint256=${amount}`
}

/** The sentence with which an agent asks its operator for money. */
export const operatorSentence = (address: string | null, fundUrl: string): string =>
  address === null
    ? `To fund this agent, open ${fundUrl}.`
    : `To fund this agent, send USDC on Base (chain id 8453) to ${address}, or open ${fundUrl}.`
