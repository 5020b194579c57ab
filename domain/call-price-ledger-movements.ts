import { smallerOfTwoMicros, subtractMicros, ZERO_MICROS, type Micros } from '../core/money.ts'
import type {
  CallPriceWithoutAgentShares,
  CallPriceSource,
  LedgerTransfer,
} from '../core/aggregate-commit-row-types.ts'

/** The movements of a price, as the view `transfers` shows them (docs/credits.md). */

/** The account that pays a part of a price. */
function payingAccount(owner: string, source: CallPriceSource, isPromo: boolean): string {
  if (source !== 'free' && source !== 'held') {
    if (isPromo) throw new Error(`promotional credits cannot pay from ${source}`)
    return source
  }
  const cash = source === 'free' ? ':cash' : ''
  return `agent:${owner}${source === 'held' ? ':held' : ''}${isPromo ? ':promo' : cash}`
}

/** Promotional credits pay the tools before the fee. */
export function toCallPriceMovements(
  owner: string,
  { callId, source, amount, fee, promo }: CallPriceWithoutAgentShares,
): LedgerTransfer[] {
  const tools = subtractMicros(amount, fee)
  const promoCharge = smallerOfTwoMicros(promo, tools)
  const promoFee = subtractMicros(promo, promoCharge)
  const movements: LedgerTransfer[] = []
  const move = (kind: 'charge' | 'fee', isPromo: boolean, part: Micros) => {
    if (part === ZERO_MICROS) return
    const credit = kind === 'charge' ? 'platform:tools' : 'treasury:fees'
    const debit = payingAccount(owner, source, isPromo)
    movements.push({ debit, credit, amount: part, kind, callId })
  }
  move('charge', true, promoCharge)
  move('charge', false, subtractMicros(tools, promoCharge))
  move('fee', true, promoFee)
  move('fee', false, subtractMicros(fee, promoFee))
  return movements
}
