import { grantCliCommandText } from '../core/credit-grant-cli-command-text.ts'
import { fromUsdc, type Micros } from '../core/money.ts'

/** `paused`: the wallet key is being exported and the wallet accepts no more deposits. */
export type DepositAvailability = 'on' | 'off' | 'paused'

/** A deposit that the chain has confirmed. */
export interface AgentLastConfirmedDeposit {
  readonly state: string
  readonly amount: Micros
  readonly tx: string
  readonly seenAt: Date
  /** Null while the amount is below the minimum. */
  readonly creditedAt: Date | null
}

/** A transfer with too few confirmations to be credited. */
export interface DepositAwaitingConfirmations {
  readonly amount: Micros
  readonly tx: string
  readonly confirmations: number
}

/**
 * Public funding information of an agent. Amounts are those of public transfers; the balance
 * appears only as a tier.
 */
export interface PublicAgentFundingInfo {
  /** EIP-55 spelling; null without a wallet that accepts deposits. */
  readonly address: string | null
  readonly deposits: DepositAvailability
  /** The alert level of its balance. */
  readonly tier: string
  /** Sum of deposits below the minimum. */
  readonly pending: Micros
  /** Oldest first. */
  readonly incoming: readonly DepositAwaitingConfirmations[]
  readonly lastDeposit: AgentLastConfirmedDeposit | null
}

/** Data of the funding page. */
export interface FundingPageData extends PublicAgentFundingInfo {
  readonly agentId: string
  readonly name: string
  /** USDC contract address. */
  readonly token: string
  readonly chainId: number
}

/** Amounts that the funding page suggests. */
export const SUGGESTED_DEPOSITS: readonly Micros[] = [1, 5, 20, 50].map((usdc) => fromUsdc(usdc))

/** EIP-681 URI: wallets prefill token, chain, receiver and, if given, the amount. */
export function toEip681Uri(
  { token, chainId }: Pick<FundingPageData, 'token' | 'chainId'>,
  address: string,
  amount: Micros | null,
): string {
  const uri = `ethereum:${token}@${chainId}/transfer?address=${address}`
  return amount === null ? uri : `${uri}&uint256=${amount}`
}

/** Input of `fundingInstructions`. */
export interface FundingInstructionsInput extends Pick<
  PublicAgentFundingInfo,
  'address' | 'deposits'
> {
  readonly agentId: string
  readonly fundUrl: string
}

/**
 * How to fund an agent, as a sentence. All messages use it, so that none asks for a transfer when
 * deposits are off.
 */
export function fundingInstructions({
  agentId,
  address,
  deposits,
  fundUrl,
}: FundingInstructionsInput): string {
  if (deposits === 'off')
    return `This station takes no deposits: send nothing. Its operator can give this agent credits with \`${grantCliCommandText(agentId)}\`.`
  if (deposits === 'paused' || address === null) return `To fund this agent, open ${fundUrl}.`
  return `To fund this agent, send USDC on Base (chain id 8453) to ${address}, or open ${fundUrl}.`
}
