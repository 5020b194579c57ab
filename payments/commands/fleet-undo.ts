import { micros, subtract, toUsdc, ZERO, type Micros } from '../../core/money.ts'
import type { Command, Turn } from '../../actors/command.ts'
import { fleetOf, fleetPromoOf, GRANTS, TREASURY, worldOf } from '../ledger.ts'
import { takeMoveOff, type Move } from './unfinal.ts'

/** A top-up of a fleet as it was booked. */
export interface UndoneTopUp {
  readonly move: Move & { readonly amount: bigint; readonly bonus: Micros }
}

/**
 * Takes back what is left of a top-up that the chain has undone, its bonus first; what was lent and
 * spent meanwhile is the treasury's loss (decision 30). On Base its tokens have the ledger's decimals.
 */
export const fleetTopUpUndone: Command<UndoneTopUp, void> = {
  name: 'fleet.topup_undone',
  kind: 'fleet',
  apply(turn, { move }) {
    const fleetId = turn.aggregateId
    const [amount, { bonus }] = [micros(move.amount), move]
    takeMoveOff(turn, move)
    const before = turn.peek('fleet', fleetId).context
    const after = turn.step('fleet', fleetId, { type: 'UNDO_TOP_UP', amount, bonus }).context
    const cash = subtract(before.cash, after.cash)
    const returned = before.promo < bonus ? before.promo : bonus
    const promo = micros(before.promo - after.promo - returned)
    book(turn, fleetPromoOf(fleetId), GRANTS, returned, 'reorg')
    book(turn, fleetPromoOf(fleetId), worldOf('base'), promo, 'reorg')
    book(turn, fleetOf(fleetId), worldOf('base'), cash, 'reorg')
    book(turn, TREASURY, worldOf('base'), micros(amount - cash - promo), 'loss')
    turn.event({
      type: 'topup',
      to: after.ownerId,
      data: {
        source: 'reorg',
        fleet_id: fleetId,
        amount_usdc: -toUsdc(amount),
        tx_hash: move.tx,
      },
    })
  },
  note: ({ move: { tx, logIndex } }) => ({ tx, logIndex }),
}

function book(
  turn: Turn,
  debit: string,
  credit: string,
  amount: Micros,
  kind: 'reorg' | 'loss',
): void {
  if (amount > ZERO) turn.transfer({ debit, credit, amount, kind })
}
