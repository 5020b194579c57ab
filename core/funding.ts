import { grantCommand } from './grant-command.ts'
import { add, fromUsdc, micros, type Micros } from './money.ts'
import { FIRST_DEPOSIT_BONUS_BPS } from './prices.ts'

/** `paused`: the wallet is being handed over to its owner and takes nothing any more. */
export type DepositsAre = 'on' | 'off' | 'paused'

/** A deposit that the chain has confirmed. */
export interface LastDeposit {
  readonly state: string
  readonly amount: Micros
  readonly tx: string
  readonly seenAt: Date
  /** Null while it waits below the minimum. */
  readonly creditedAt: Date | null
}

/** A transfer to the wallet that has too few confirmations to be credited. */
export interface IncomingDeposit {
  readonly amount: Micros
  readonly tx: string
  readonly confirmations: number
}

/**
 * What anybody may know of an agent who wants to fund it. The amounts are those of transfers that the
 * chain shows to everybody; the balance is told as a level only.
 */
export interface FundStatus {
  /** EIP-55 spelling; null while it has none that takes deposits. */
  readonly address: string | null
  readonly deposits: DepositsAre
  /** The alert level of its balance. */
  readonly tier: string
  /** Deposits below the minimum, in all. */
  readonly pending: Micros
  /** The next credited deposit brings the bonus. */
  readonly bonusAhead: boolean
  /** The oldest first. */
  readonly incoming: readonly IncomingDeposit[]
  readonly lastDeposit: LastDeposit | null
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

/** How an agent can be given money on this station. */
export interface FundingOptions extends Pick<FundStatus, 'address' | 'deposits'> {
  readonly agentId: string
  readonly fundUrl: string
}

/**
 * The sentence with which an agent asks its operator for money. Every message about funding uses it,
 * so that nobody is told to send money which no one watches for.
 */
export function fundingSentence({ agentId, address, deposits, fundUrl }: FundingOptions): string {
  if (deposits === 'off')
    return `This station takes no deposits: send nothing. Its operator can give this agent credits with \`${grantCommand(agentId)}\`.`
  if (deposits === 'paused' || address === null) return `To fund this agent, open ${fundUrl}.`
  return `To fund this agent, send USDC on Base (chain id 8453) to ${address}, or open ${fundUrl}.`
}
