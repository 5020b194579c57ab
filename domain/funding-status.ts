import { grantCliCommand } from '../core/grant-cli-command.ts'
import { addMicros, fromUsdc, micros, type Micros } from '../core/money.ts'
import { FIRST_DEPOSIT_BONUS_BPS } from './pricing.ts'

/** `paused`: the wallet is being handed over to its owner and takes nothing any more. */
export type DepositAvailability = 'on' | 'off' | 'paused'

/** A deposit that the chain has confirmed. */
export interface LastConfirmedDeposit {
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
export interface FundingStatus {
  /** EIP-55 spelling; null while it has none that takes deposits. */
  readonly address: string | null
  readonly deposits: DepositAvailability
  /** The alert level of its balance. */
  readonly tier: string
  /** Deposits below the minimum, in all. */
  readonly pending: Micros
  /** The next credited deposit brings the bonus. */
  readonly bonusAhead: boolean
  /** The oldest first. */
  readonly incoming: readonly IncomingDeposit[]
  readonly lastDeposit: LastConfirmedDeposit | null
}

/** What the funding page shows. */
export interface FundingPageData extends FundingStatus {
  readonly agentId: string
  readonly name: string
  /** The contract of USDC. */
  readonly token: string
  readonly chainId: number
}

/** A page with the policy it has to be served under. */
export interface HtmlPage {
  readonly html: string
  readonly contentSecurityPolicy: string
}

/** What the page proposes to send. */
export const SUGGESTED_DEPOSITS: readonly Micros[] = [1, 5, 20, 50].map((usdc) => fromUsdc(usdc))

/** What a first deposit becomes. */
export const addFirstDepositBonus = (amount: Micros): Micros =>
  addMicros(amount, micros((amount * FIRST_DEPOSIT_BONUS_BPS) / 10_000n))

/** EIP-681: a wallet that reads it fills in token, chain, receiver and, where given, the amount. */
export function toEip681Uri(
  { token, chainId }: Pick<FundingPageData, 'token' | 'chainId'>,
  address: string,
  amount: Micros | null,
): string {
  const uri = `ethereum:${token}@${chainId}/transfer?address=${address}`
  return amount === null ? uri : `${uri}&uint256=${amount}`
}

/** How an agent can be given money on this station. */
export interface FundingInstructionsInput extends Pick<FundingStatus, 'address' | 'deposits'> {
  readonly agentId: string
  readonly fundUrl: string
}

/**
 * The sentence with which an agent asks its operator for money. Every message about funding uses it,
 * so that nobody is told to send money which no one watches for.
 */
export function fundingInstructions({
  agentId,
  address,
  deposits,
  fundUrl,
}: FundingInstructionsInput): string {
  if (deposits === 'off')
    return `This station takes no deposits: send nothing. Its operator can give this agent credits with \`${grantCliCommand(agentId)}\`.`
  if (deposits === 'paused' || address === null) return `To fund this agent, open ${fundUrl}.`
  return `To fund this agent, send USDC on Base (chain id 8453) to ${address}, or open ${fundUrl}.`
}
