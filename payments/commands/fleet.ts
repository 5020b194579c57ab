import { add, least, micros, subtract, sum, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import { ServiceError } from '../../core/errors.ts'
import { totalLent } from '../../core/loans.ts'
import type { TransferKind } from '../../core/rows.ts'
import type { Command, Turn } from '../../actors/command.ts'
import { stagedMember } from '../../persistence/fleets.ts'
import {
  fleetOf,
  fleetPromoOf,
  GRANTS,
  heldOf,
  heldPromoOf,
  taken,
  worldOf,
  type Purse,
} from '../ledger.ts'
import { watchMove } from './unfinal.ts'

/** A new pool and the rows that describe it. */
export interface FleetBirth {
  readonly ownerId: string
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
}

export const fleetCreate: Command<FleetBirth, void> = {
  name: 'fleet.create',
  kind: 'fleet',
  creates: true,
  apply(turn, { ownerId, rows }) {
    const fleetId = turn.aggregateId
    turn.create('fleet', fleetId, { fleetId, ownerId })
    for (const { table, row } of rows) turn.row(table, row)
  },
  note: ({ ownerId }) => ({ ownerId }),
}

/** What a pool can lend. */
export const fleetPool: Command<Record<string, never>, Purse> = {
  name: 'fleet.pool',
  kind: 'fleet',
  apply(turn) {
    const { promo, cash } = turn.peek('fleet', turn.aggregateId).context
    return { promo, cash }
  },
}

/**
 * Takes an agent in. That it is in no other fleet is for the directory to say, by the key of its
 * row: so what waits for the agent in its inbox is never refused.
 */
export const fleetJoin: Command<{ agentId: string }, void> = {
  name: 'fleet.join',
  kind: 'fleet',
  apply(turn, { agentId }) {
    const fleetId = turn.aggregateId
    turn.step('fleet', fleetId, { type: 'JOIN', agentId })
    turn.row('fleet_members', stagedMember(agentId, fleetId, turn.now))
    turn.inbox({
      receiver: agentId,
      receiverKind: 'agent',
      // It may have been in this fleet before: each time is told.
      id: `join:${turn.id()}`,
      event: { type: 'JOIN_FLEET', fleetId },
    })
  },
  note: ({ agentId }) => ({ agentId }),
}

/** What a member is short of for a call; `id` names this one draw. */
export interface Draw {
  readonly id: string
  readonly agentId: string
  readonly callId: string
  readonly amount: Micros
}

/** Lends a member exactly what it is short of, all of it or nothing; for this one call and no other. */
export const fleetDraw: Command<Draw, Purse> = {
  name: 'fleet.draw',
  kind: 'fleet',
  apply(turn, { id, agentId, callId, amount }) {
    const fleetId = turn.aggregateId
    const before = turn.peek('fleet', fleetId).context
    const after = turn.step('fleet', fleetId, { type: 'DRAW', agentId, amount }).context
    const { promo, cash } = taken(before, after)
    move(turn, fleetPromoOf(fleetId), heldPromoOf(agentId), promo, 'draw', callId)
    move(turn, fleetOf(fleetId), heldOf(agentId), cash, 'draw', callId)
    turn.inbox({
      receiver: agentId,
      receiverKind: 'agent',
      id: `draw:${id}`,
      event: { type: 'LEND', fleetId, id, callId, held: amount, bonus: promo },
    })
    return { promo, cash }
  },
  note: ({ id, agentId, callId, amount }) => ({ id, agentId, callId, amount }),
}

/** How much an agent is short of, and whose pool may lend it. */
export interface Shortage {
  readonly fleetId: string | null
  readonly amount: Micros
}

interface Asked {
  readonly callId: string
  readonly amount: Micros
  readonly beside: boolean
  readonly whole?: boolean
}

/**
 * `beside` counts what other calls hold in memory here, as an admission does; a capture does not.
 * `whole` leaves the agent's own money to them: they may take it as fast as it is looked at.
 */
export const drawShortage: Command<Asked, Shortage> = {
  name: 'draw.shortage',
  kind: 'agent',
  apply(turn, { callId, amount: price, beside, whole = false }) {
    const { promo, cash, fleetId, holds } = turn.peek('agent', turn.aggregateId).context
    const lent = totalLent(holds[callId]?.loans ?? [])
    const amount = subtract(price, least(price, add(lent.promo, lent.cash)))
    if (whole) return { fleetId, amount }
    const reserved = beside ? turn.soft.total : ZERO
    const free = micros(promo + cash - reserved)
    // Below zero another node has spent what calls here stand on: those draw for themselves.
    return { fleetId, amount: subtract(amount, least(amount, free > ZERO ? free : ZERO)) }
  },
}

/** Transfers of USDC that were found on the chain and count for this fleet. */
export interface FleetTopUp {
  readonly tx: string
  readonly transfers: readonly { readonly logIndex: number; readonly amount: Micros }[]
}

export interface ToppedUpFleet {
  readonly credited: Micros
  readonly bonus: Micros
}

/**
 * Credits what has arrived; its place on the chain is claimed in the same commit (decision 31). That
 * nothing is left of it is said here, where the Idempotency-Key has been looked up: the same request
 * may have taken it on another node.
 */
export const fleetTopUp: Command<FleetTopUp, ToppedUpFleet> = {
  name: 'fleet.topup',
  kind: 'fleet',
  apply(turn, { tx, transfers }) {
    const fleetId = turn.aggregateId
    if (transfers.length === 0)
      throw new ServiceError('transfer_claimed', { tx_hash: tx, fleet_id: fleetId })
    const credited = sum(transfers.map(({ amount }) => amount))
    const before = turn.peek('fleet', fleetId).context
    const after = turn.step('fleet', fleetId, { type: 'TOP_UP', amount: credited }).context
    const bonus = subtract(after.promo, before.promo)
    for (const { logIndex, amount } of transfers) {
      const [kind, at] = ['fleet_topup', new Date(turn.now).toISOString()]
      turn.row('chain_moves', { chain: 'base', tx, log_index: logIndex, kind, ref: fleetId, at })
      turn.transfer({
        debit: worldOf('base'),
        credit: fleetOf(fleetId),
        amount,
        kind: 'topup',
        memo: tx,
      })
    }
    for (const [at, { logIndex, amount }] of transfers.entries())
      watchMove(turn, {
        chain: 'base',
        tx,
        logIndex,
        kind: 'fleet_topup',
        ref: fleetId,
        asset: null,
        sender: null,
        amount,
        // Whichever of them brought it: it goes with the first.
        bonus: at === 0 ? bonus : ZERO,
        block: null,
      })
    move(turn, GRANTS, fleetPromoOf(fleetId), bonus, 'bonus', null)
    turn.event({
      type: 'topup',
      to: after.ownerId,
      data: {
        source: 'fleet',
        fleet_id: fleetId,
        amount_usdc: toUsdc(credited),
        bonus_usdc: toUsdc(bonus),
        pool_usdc: toUsdc(add(after.promo, after.cash)),
        tx_hash: tx,
      },
    })
    return { credited, bonus }
  },
  note: ({ tx, transfers }) => ({ tx, logs: transfers.map(({ logIndex }) => logIndex) }),
}

function move(
  turn: Turn,
  debit: string,
  credit: string,
  amount: Micros,
  kind: TransferKind,
  callId: string | null,
): void {
  if (amount > ZERO) turn.transfer({ debit, credit, amount, kind, callId })
}
