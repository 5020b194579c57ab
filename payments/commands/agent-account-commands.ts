import { ServiceError } from '../../core/errors.ts'
import {
  addMicros,
  splitByBps,
  subtractMicros,
  toUsdc,
  ZERO_MICROS,
  type Micros,
} from '../../core/money.ts'
import { TIP_FEE_BPS } from '../../domain/pricing.ts'
import type { TaskPassView } from '../../domain/prepaid-task-passes.ts'
import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import {
  createBackpackAndEmitEvent,
  type NewBackpack,
} from '../../actors/commands/backpacks-commands.ts'
import {
  getAgentBalanceAlertLevel,
  type AgentBalanceTier,
} from '../../actors/commands/spend-limit-usage.ts'
import type { Spender } from '../agent-call-admission-request-types.ts'
import {
  agentCashAccount,
  PROMO_GRANTS_ACCOUNT,
  drawLedgerTransfersFromSources,
  agentPromoAccount,
  TREASURY_FEES_ACCOUNT,
  type PromoCashAmounts,
  type DebitSource,
} from '../ledger-accounts.ts'
import { listUsableTaskPasses } from '../task-pass-payment.ts'
import { spendCredits } from './debit-transfers-tips-and-bounties.ts'

/** A new agent with its starter credits and the rows that describe it. */
export interface CreateAgentInput {
  readonly agentId: string
  readonly starter: Micros
  /** The agent that referred it. */
  readonly referrer?: string | null
  /** The agent whose bundle made it (decision 239). */
  readonly parent?: string | null
  /** The Backpack created with it, and its id. */
  readonly backpack?: { readonly id: string; readonly terms: NewBackpack }
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
}

export const createAgentCommand: AggregateCommand<CreateAgentInput, void> = {
  name: 'agent.create',
  kind: 'agent',
  creates: true,
  apply(ctx, { agentId, starter, referrer = null, parent = null, backpack, rows }) {
    // A repeated onboarding leaves the agent as it was created.
    if (ctx.has('agent', agentId)) return
    ctx.create('agent', agentId, { agentId, promo: starter, cash: ZERO_MICROS, referrer, parent })
    if (starter > ZERO_MICROS) {
      ctx.transfer({
        debit: PROMO_GRANTS_ACCOUNT,
        credit: agentPromoAccount(agentId),
        amount: starter,
        kind: 'grant',
      })
    }
    if (backpack !== undefined) createBackpackAndEmitEvent(ctx, backpack.id, backpack.terms)
    for (const { table, row } of rows) ctx.row(table, row)
  },
  note: ({ starter }) => ({ starter }),
}

export interface AgentBalance extends PromoCashAmounts {
  readonly held: Micros
  /** Held in memory by running calls. */
  readonly reserved: Micros
  /** Credits a new call could spend now. */
  readonly available: Micros
  /** The task passes that still pay calls. */
  readonly passes: readonly TaskPassView[]
  readonly tier: AgentBalanceTier
}

/** The credits of an agent, after absorbing its inbox. */
export const getAgentBalanceCommand: AggregateCommand<Record<string, never>, AgentBalance> = {
  name: 'balance',
  kind: 'agent',
  apply(ctx) {
    const { context } = ctx.snapshotOf('agent', ctx.aggregateId)
    const { promo, cash, held } = context
    const reserved = ctx.inMemoryHolds.total
    const available = subtractMicros(addMicros(promo, cash), reserved)
    const passes = listUsableTaskPasses(ctx)
    const tier = getAgentBalanceAlertLevel(ctx)
    return { promo, cash, held, reserved, available, passes, tier }
  },
}

export interface CreditTransferInput {
  readonly toAgentId: string
  readonly amount: Micros
  readonly memo: string | null
  /** Whether promotional credits may leave the agent (decision 25). */
  readonly promoTransferable: boolean
  readonly spender: Spender
}

export interface CreditTransferResult {
  readonly transferId: string
  readonly amount: Micros
  readonly fee: Micros
  readonly balance: Micros
}

/** Transfers credits without a fee; the limits of the spender count them. */
export const sendCreditsCommand: AggregateCommand<CreditTransferInput, CreditTransferResult> = {
  name: 'transfer.send',
  kind: 'agent',
  apply: (ctx, payment) => transferCredits(ctx, payment, ZERO_MICROS, 'agent_send'),
  note: ({ toAgentId, amount }) => ({ toAgentId, amount }),
}

/** A tip: 5 % to the treasury, the rest to the recipient. */
export const tipAgentCommand: AggregateCommand<CreditTransferInput, CreditTransferResult> = {
  name: 'tip',
  kind: 'agent',
  apply(ctx, payment) {
    const shares = splitByBps(payment.amount, { kept: 10_000n - TIP_FEE_BPS }, 'fee')
    const fee = shares.find(({ account }) => account === 'fee')?.amount ?? ZERO_MICROS
    return transferCredits(ctx, payment, fee, 'tip')
  },
  note: ({ toAgentId, amount }) => ({ toAgentId, amount }),
}

/** Debits the payer and puts the credit into the receiver's inbox, in one commit. */
function transferCredits(
  ctx: CommandContext,
  payment: CreditTransferInput,
  fee: Micros,
  permission: 'agent_send' | 'tip',
): CreditTransferResult {
  const { toAgentId, amount, memo, promoTransferable, spender } = payment
  const agentId = ctx.aggregateId
  const kind = permission === 'tip' ? 'tip' : 'send'
  if (toAgentId === agentId) throw new ServiceError('self_transfer')
  const transferId = ctx.newId()
  const from = promoTransferable ? 'any' : 'cash'
  const parts = spendCredits(ctx, spender, { id: transferId, permission, amount, from })
  // The fee takes cash first, so that promotional credits reach the recipient as promotional.
  const sources = [
    { account: agentCashAccount(agentId), amount: parts.cash },
    { account: agentPromoAccount(agentId), amount: parts.promo },
  ]
  const fees = drawLedgerTransfersFromSources(
    sources,
    [{ account: TREASURY_FEES_ACCOUNT, amount: fee, kind: 'tip_fee' }],
    transferId,
  )
  for (const transfer of fees) ctx.transfer({ ...transfer, memo })
  const left = sources.map((source) => subtractTransfers(source, fees))
  for (const { account, amount: part } of left) {
    if (part === ZERO_MICROS) continue
    const credit =
      account === agentCashAccount(agentId)
        ? agentCashAccount(toAgentId)
        : agentPromoAccount(toAgentId)
    const moved = { debit: account, credit, amount: part, promoAllowed: promoTransferable }
    ctx.transfer({ ...moved, kind, callId: transferId, memo })
  }
  const [cash = ZERO_MICROS, promo = ZERO_MICROS] = left.map((source) => source.amount)
  ctx.inbox({
    receiver: toAgentId,
    receiverKind: 'agent',
    id: `${transferId}-${kind}`,
    event: { type: 'CREDIT', promo, cash },
  })
  const got = subtractMicros(amount, fee)
  ctx.event({
    type: 'topup',
    to: toAgentId,
    data: {
      source: kind,
      from_agent_id: agentId,
      amount_usdc: toUsdc(got),
      transfer_id: transferId,
    },
  })
  const { context } = ctx.snapshotOf('agent', agentId)
  return { transferId, amount: got, fee, balance: addMicros(context.promo, context.cash) }
}

const subtractTransfers = (
  source: DebitSource,
  gone: readonly { debit: string; amount: Micros }[],
): DebitSource => ({
  account: source.account,
  amount: gone
    .filter((transfer) => transfer.debit === source.account)
    .reduce((left, transfer) => subtractMicros(left, transfer.amount), source.amount),
})
