import type { CommandContext } from '../actors/aggregate-command-types.ts'
import type { CallRow, PriceShare } from '../core/aggregate-commit-row-types.ts'
import { parseWithBigints, stringifyWithBigints } from '../core/json/bigint.ts'
import type { DomainEvent } from '../core/domain-events.ts'
import { paymentClearingAccount, type PaymentChainName } from './ledger-accounts.ts'
import { bookCallPrice } from './price-split.ts'

/** What a payment of a caller without a key buys: booked at once, or kept until the payment has settled. */

/** Finished calls with everything that their commit writes. */
export interface PaidCallsToCommit {
  readonly calls: readonly CallRow[]
  readonly rows: readonly { table: string; row: Record<string, unknown> }[]
  readonly events: readonly DomainEvent[]
  /** Parts of the prices that go to other agents, by call. */
  readonly shares: readonly (PriceShare & { readonly callId: string })[]
}

/** A share as text: its rows and events are those of its whole amount, for a chain pays in cash. */
interface StoredShare extends Omit<PaidCallsToCommit['shares'][number], 'stagedWrites'> {
  readonly writes: ReturnType<NonNullable<PriceShare['stagedWrites']>> | null
}
interface StoredAnswer extends Omit<PaidCallsToCommit, 'shares'> {
  readonly shares: readonly StoredShare[]
}

/** Stores the calls and divides their prices, which the clearing account of the chain owes. */
export function bookPaidCallsFromClearingAccount(
  ctx: CommandContext,
  chain: PaymentChainName,
  { calls, rows, events, shares }: PaidCallsToCommit,
): void {
  for (const row of calls) {
    const { cost, callId } = row
    const own = shares.filter((share) => share.callId === callId)
    const payers = [{ account: paymentClearingAccount(chain), amount: cost }]
    // A chain pays in cash: no part is promotional.
    const sharing = { referrer: null, shares: own, promoTransferable: false }
    bookCallPrice(ctx, { payers, cost, callId, ...sharing })
    ctx.call(row)
  }
  for (const staged of rows) ctx.row(staged.table, staged.row)
  for (const event of events) ctx.event(event)
}

/** Keeps the answer until its payment has settled: no row of it exists before. */
export function storeAnswerUntilPaymentSettled(
  ctx: CommandContext,
  settlement: string,
  { shares, ...answer }: PaidCallsToCommit,
): void {
  const stored: StoredAnswer = {
    ...answer,
    shares: shares.map(({ stagedWrites, ...share }) => ({
      ...share,
      writes: stagedWrites?.(share.amount) ?? null,
    })),
  }
  ctx.row('withheld_answers', {
    settlement,
    answer: stringifyWithBigints(stored),
    at: new Date(ctx.now).toISOString(),
  })
}

/** The answer that `storeAnswerUntilPaymentSettled` has stored. */
export function decodeWithheldAnswer(text: string): PaidCallsToCommit {
  const { shares, ...answer } = parseWithBigints<StoredAnswer>(text)
  return {
    ...answer,
    shares: shares.map(({ writes, ...share }) =>
      writes === null ? share : { ...share, stagedWrites: () => writes },
    ),
  }
}
