import { PLATFORM_FEE_BPS } from '../core/prices.ts'
import { least, split, subtract, ZERO, type Micros } from '../core/money.ts'
import type { Transfer, TransferKind } from '../core/rows.ts'

/** The accounts of the ledger (architecture 5). */
const PLATFORM = 'platform:tools'
export const TREASURY = 'treasury:fees'
export const GRANTS = 'grants:promo'
export const promoOf = (agentId: string) => `agent:${agentId}:promo`
export const cashOf = (agentId: string) => `agent:${agentId}:cash`
export const heldOf = (agentId: string) => `agent:${agentId}:held`

/** An amount by where it came from. */
export interface Purse {
  readonly promo: Micros
  readonly cash: Micros
}

/** What a step took from an agent's free credits. */
export const taken = (before: Purse, after: Purse): Purse => ({
  promo: subtract(before.promo, after.promo),
  cash: subtract(before.cash, after.cash),
})

/** The part of a hold that a capture uses, promotional credits first, and what goes back. */
export function captured(hold: Purse, amount: Micros): { used: Purse; back: Purse } {
  const promo = least(hold.promo, amount)
  const used = { promo, cash: subtract(amount, promo) }
  return { used, back: taken(hold, used) }
}

/** The movements of a native tool's price: 82 % to the tools, the rest to the treasury (spec 5.10). */
export function chargeOf(sources: readonly Source[], price: Micros, callId: string): Transfer[] {
  const shares = split(price, { [PLATFORM]: 10_000n - PLATFORM_FEE_BPS }, TREASURY)
  return pour(
    sources,
    shares.map(({ account, amount }) => ({ account, amount, kind: kindOf(account) })),
    callId,
  )
}
const kindOf = (account: string): TransferKind => (account === TREASURY ? 'fee' : 'charge')

export interface Source {
  readonly account: string
  readonly amount: Micros
}

/** Fills the wanted amounts from the sources in order; both sides have the same sum. */
export function pour(
  sources: readonly Source[],
  wanted: readonly { account: string; amount: Micros; kind: TransferKind }[],
  callId: string,
): Transfer[] {
  const left = sources.map((source) => ({ ...source }))
  return wanted.flatMap(({ account, amount, kind }) => {
    let open = amount
    const moved: Transfer[] = []
    for (const source of left) {
      const part = least(source.amount, open)
      if (part === ZERO) continue
      source.amount = subtract(source.amount, part)
      open = subtract(open, part)
      moved.push({ debit: source.account, credit: account, amount: part, kind, callId })
    }
    if (open !== ZERO) throw new Error(`sources fall short by ${open} micro-USDC`)
    return moved
  })
}

/** The movements between one agent's own accounts; parts of zero leave no row. */
export function shift(
  parts: readonly { debit: string; credit: string; amount: Micros }[],
  kind: TransferKind,
  callId: string,
): Transfer[] {
  return parts.filter((part) => part.amount > ZERO).map((part) => ({ ...part, kind, callId }))
}
