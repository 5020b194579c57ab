import { asMicros, subtractMicros, toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import type { AggregateCommand, CommandContext } from '../../actors/aggregate-command-types.ts'
import {
  fleetPoolAccount,
  fleetPoolPromoAccount,
  PROMO_GRANTS_ACCOUNT,
  TREASURY_FEES_ACCOUNT,
  externalChainAccount,
} from '../ledger-accounts.ts'
import { recordReversedTransfer, type ReversedChainTransfer } from './track-finality.ts'

/** A fleet top-up as it was booked. */
export interface ReverseFleetTopUpInput {
  readonly move: ReversedChainTransfer & { readonly amount: bigint; readonly bonus: Micros }
}

/**
 * Takes back what is left of a top-up that a reorganisation has undone, its bonus first; credits
 * already lent and spent are the treasury's loss (decision 30). USDC on Base has the ledger's
 * decimals.
 */
export const reverseFleetTopUpCommand: AggregateCommand<ReverseFleetTopUpInput, void> = {
  name: 'fleet.topup_undone',
  kind: 'fleet',
  apply(ctx, { move }) {
    const fleetId = ctx.aggregateId
    const [amount, { bonus }] = [asMicros(move.amount), move]
    recordReversedTransfer(ctx, move)
    const before = ctx.snapshotOf('fleet', fleetId).context
    const after = ctx.send('fleet', fleetId, { type: 'UNDO_TOP_UP', amount, bonus }).context
    const cash = subtractMicros(before.cash, after.cash)
    const returned = before.promo < bonus ? before.promo : bonus
    const promo = asMicros(before.promo - after.promo - returned)
    transferNonZero(ctx, fleetPoolPromoAccount(fleetId), PROMO_GRANTS_ACCOUNT, returned, 'reorg')
    transferNonZero(
      ctx,
      fleetPoolPromoAccount(fleetId),
      externalChainAccount('base'),
      promo,
      'reorg',
    )
    transferNonZero(ctx, fleetPoolAccount(fleetId), externalChainAccount('base'), cash, 'reorg')
    transferNonZero(
      ctx,
      TREASURY_FEES_ACCOUNT,
      externalChainAccount('base'),
      asMicros(amount - cash - promo),
      'loss',
    )
    ctx.event({
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

function transferNonZero(
  ctx: CommandContext,
  debit: string,
  credit: string,
  amount: Micros,
  kind: 'reorg' | 'loss',
): void {
  if (amount > ZERO_MICROS) ctx.transfer({ debit, credit, amount, kind })
}
