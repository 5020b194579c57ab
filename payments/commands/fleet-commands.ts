import {
  addMicros,
  smallerOfTwoMicros,
  asMicros,
  subtractMicros,
  sumMicros,
  toUsdc,
  ZERO_MICROS,
  type Micros,
} from '../../core/money.ts'
import type { BonusLeft } from '../../domain/pricing.ts'
import { ServiceError } from '../../core/errors.ts'
import { sumFleetLoansOfCall } from '../../domain/fleet-loans.ts'
import type { LedgerTransferKind } from '../../core/aggregate-commit-row-types.ts'
import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import { toFleetMemberRow } from '../../persistence/fleets/fleet-store.ts'
import {
  fleetPoolAccount,
  fleetPoolPromoAccount,
  PROMO_GRANTS_ACCOUNT,
  agentHeldAccount,
  agentHeldPromoAccount,
  computeFreeCreditsTaken,
  externalChainAccount,
  type PromoCashAmounts,
} from '../ledger-accounts.ts'
import { claimDepositBonus } from '../deposits/claim-bonus.ts'
import { trackTransferFinality } from './track-finality.ts'

/** A new pool and the rows that describe it. */
export interface CreateFleetInput {
  readonly ownerId: string
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
}

export const createFleetCommand: AggregateCommand<CreateFleetInput, void> = {
  name: 'fleet.create',
  kind: 'fleet',
  creates: true,
  apply(ctx, { ownerId, rows }) {
    const fleetId = ctx.aggregateId
    ctx.create('fleet', fleetId, { fleetId, ownerId })
    for (const { table, row } of rows) ctx.row(table, row)
  },
  note: ({ ownerId }) => ({ ownerId }),
}

/** Credits a pool can lend. */
export const getFleetPoolCreditsCommand: AggregateCommand<
  Record<string, never>,
  PromoCashAmounts
> = {
  name: 'fleet.pool',
  kind: 'fleet',
  apply(ctx) {
    const { promo, cash } = ctx.snapshotOf('fleet', ctx.aggregateId).context
    return { promo, cash }
  },
}

/**
 * Adds an agent to a fleet. The key of its directory row ensures that it is in no other fleet, so
 * messages in its inbox are never rejected.
 */
export const joinFleetCommand: AggregateCommand<{ agentId: string }, void> = {
  name: 'fleet.join',
  kind: 'fleet',
  apply(ctx, { agentId }) {
    const fleetId = ctx.aggregateId
    ctx.send('fleet', fleetId, { type: 'JOIN', agentId })
    ctx.row('fleet_members', toFleetMemberRow(agentId, fleetId, ctx.now))
    ctx.inbox({
      receiver: agentId,
      receiverKind: 'agent',
      // The agent may have joined this fleet before: each time sends its own message.
      id: `join:${ctx.newId()}`,
      event: { type: 'JOIN_FLEET', fleetId },
    })
  },
  note: ({ agentId }) => ({ agentId }),
}

/** The credits a member lacks for a call; `id` identifies this draw. */
export interface FleetDrawInput {
  readonly id: string
  readonly agentId: string
  readonly callId: string
  readonly amount: Micros
  /** The call takes no promotional credits, so the pool lends none. */
  readonly from?: 'cash' | undefined
}

/** Lends a member all the credits it lacks for this one call, or none. */
export const drawFromFleetCommand: AggregateCommand<FleetDrawInput, PromoCashAmounts> = {
  name: 'fleet.draw',
  kind: 'fleet',
  apply(ctx, { id, agentId, callId, amount, from }) {
    const fleetId = ctx.aggregateId
    const before = ctx.snapshotOf('fleet', fleetId).context
    const after = ctx.send('fleet', fleetId, {
      type: 'DRAW',
      agentId,
      amount,
      ...(from === undefined ? {} : { from }),
    }).context
    const { promo, cash } = computeFreeCreditsTaken(before, after)
    transferNonZero(
      ctx,
      fleetPoolPromoAccount(fleetId),
      agentHeldPromoAccount(agentId),
      promo,
      'draw',
      callId,
    )
    transferNonZero(ctx, fleetPoolAccount(fleetId), agentHeldAccount(agentId), cash, 'draw', callId)
    ctx.inbox({
      receiver: agentId,
      receiverKind: 'agent',
      id: `draw:${id}`,
      event: { type: 'LEND', fleetId, id, callId, held: amount, bonus: promo },
    })
    return { promo, cash }
  },
  note: ({ id, agentId, callId, amount }) => ({ id, agentId, callId, amount }),
}

/** The amount an agent lacks and the fleet that may lend it. */
export interface CreditShortage {
  readonly fleetId: string | null
  readonly amount: Micros
}

interface CreditShortageInput {
  readonly callId: string
  readonly amount: Micros
  readonly beside: boolean
  readonly whole?: boolean
  /** Only cash counts. */
  readonly from?: 'cash' | undefined
}

/**
 * `beside` counts credits that other calls hold in memory here, as admission does; capture does
 * not. `whole` leaves the agent's own credits to those calls.
 */
export const getCreditShortageCommand: AggregateCommand<CreditShortageInput, CreditShortage> = {
  name: 'draw.shortage',
  kind: 'agent',
  apply(ctx, { callId, amount: price, beside, whole = false, from }) {
    const { promo, cash, fleetId, holds } = ctx.snapshotOf('agent', ctx.aggregateId).context
    const lent = sumFleetLoansOfCall(holds[callId]?.loans ?? [])
    const amount = subtractMicros(
      price,
      smallerOfTwoMicros(price, addMicros(lent.promo, lent.cash)),
    )
    if (whole) return { fleetId, amount }
    const reserved = beside ? ctx.inMemoryHolds.total : ZERO_MICROS
    const free = asMicros(
      // Other calls here use promotional credits first.
      from === 'cash' ? cash - (reserved > promo ? reserved - promo : 0n) : promo + cash - reserved,
    )
    // Below zero, another node has spent credits that calls here rely on; those calls draw their
    // own.
    return {
      fleetId,
      amount: subtractMicros(
        amount,
        smallerOfTwoMicros(amount, free > ZERO_MICROS ? free : ZERO_MICROS),
      ),
    }
  },
}

/** USDC transfers found on the chain that count for this fleet. */
export interface FleetTransfers {
  readonly tx: string
  readonly transfers: readonly { readonly logIndex: number; readonly amount: Micros }[]
}

export interface FleetTopUpInput extends FleetTransfers {
  /** What its owner and the day leave for a bonus. */
  readonly bonusLeft: BonusLeft
}

export interface FleetTopUpResult {
  readonly credited: Micros
  readonly bonus: Micros
}

/**
 * Credits the arrived transfers and claims their positions on the chain in the same commit
 * (decision 31). The check that any are left runs here, after the Idempotency-Key lookup: the same
 * request may have taken them on another node.
 */
export const topUpFleetCommand: AggregateCommand<FleetTopUpInput, FleetTopUpResult> = {
  name: 'fleet.topup',
  kind: 'fleet',
  apply(ctx, { tx, transfers, bonusLeft }) {
    const fleetId = ctx.aggregateId
    if (transfers.length === 0)
      throw new ServiceError('transfer_claimed', { tx_hash: tx, fleet_id: fleetId })
    const credited = sumMicros(transfers.map(({ amount }) => amount))
    const before = ctx.snapshotOf('fleet', fleetId).context
    const after = ctx.send('fleet', fleetId, {
      type: 'TOP_UP',
      amount: credited,
      bonusLeft,
    }).context
    const bonus = subtractMicros(after.promo, before.promo)
    for (const { logIndex, amount } of transfers) {
      const [kind, at] = ['fleet_topup', new Date(ctx.now).toISOString()]
      ctx.row('chain_transfers', { chain: 'base', tx, log_index: logIndex, kind, ref: fleetId, at })
      ctx.transfer({
        debit: externalChainAccount('base'),
        credit: fleetPoolAccount(fleetId),
        amount,
        kind: 'topup',
        memo: tx,
      })
    }
    for (const [at, { logIndex, amount }] of transfers.entries())
      trackTransferFinality(ctx, {
        chain: 'base',
        tx,
        logIndex,
        kind: 'fleet_topup',
        ref: fleetId,
        asset: null,
        sender: null,
        amount,
        // The whole bonus goes with the first transfer.
        bonus: at === 0 ? bonus : ZERO_MICROS,
        block: null,
      })
    transferNonZero(ctx, PROMO_GRANTS_ACCOUNT, fleetPoolPromoAccount(fleetId), bonus, 'bonus', null)
    claimDepositBonus(ctx, bonus)
    ctx.event({
      type: 'topup',
      to: after.ownerId,
      data: {
        source: 'fleet',
        fleet_id: fleetId,
        amount_usdc: toUsdc(credited),
        bonus_usdc: toUsdc(bonus),
        pool_usdc: toUsdc(addMicros(after.promo, after.cash)),
        tx_hash: tx,
      },
    })
    return { credited, bonus }
  },
  note: ({ tx, transfers }) => ({ tx, logs: transfers.map(({ logIndex }) => logIndex) }),
}

function transferNonZero(
  ctx: CommandContext,
  debit: string,
  credit: string,
  amount: Micros,
  kind: LedgerTransferKind,
  callId: string | null,
): void {
  if (amount > ZERO_MICROS) ctx.transfer({ debit, credit, amount, kind, callId })
}
