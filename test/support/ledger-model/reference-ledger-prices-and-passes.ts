import { LEDGER_MODEL_TASK_PASS } from './ledger-model-test-commands.ts'
import type { LedgerModelSettleOperation } from './ledger-model-operations.ts'
import {
  LedgerModelRejection,
  type LedgerModelAgent,
  type LedgerModelCall,
  type LedgerModelTaskPass,
  type LedgerModelPurse,
} from './ledger-model-state.ts'

/** How the reference ledger divides prices, and its task passes. */

export const smallerAmount = (a: bigint, b: bigint) => (a < b ? a : b)
export const takeFromReferencePurse = (
  purse: LedgerModelPurse,
  amount: bigint,
): LedgerModelPurse => {
  const promo = smallerAmount(purse.promo, amount)
  return { promo, cash: amount - promo }
}

/** The accounts that a price reaches. */
interface ReferenceAccounts {
  readonly agents: readonly LedgerModelAgent[]
  readonly referral: LedgerModelPurse
  platform: bigint
  treasury: bigint
  granted: bigint
}

/** Divides a price among its recipients, by kind of credits. */
export function divideReferencePrice(
  accounts: ReferenceAccounts,
  agent: number,
  cost: bigint,
  paid: LedgerModelPurse,
  op: LedgerModelSettleOperation,
): void {
  const share = (cost * op.share) / 4n
  const left = { ...paid }
  const fromCash = smallerAmount(share, paid.cash)
  const shared = { cash: fromCash, promo: share - fromCash }
  left.cash -= shared.cash
  left.promo -= shared.promo
  const arrives = { cash: shared.cash, promo: op.promoToo ? shared.promo : 0n }
  accounts.granted -= shared.promo - arrives.promo
  if (arrives.cash + arrives.promo > 0n) accounts.agents[1 - agent]?.inbox.push(arrives)
  const keepsFee = share === 0n || op.withFee
  const fee = keepsFee ? smallerAmount(cost - (cost * 82n) / 100n, left.cash + left.promo) : 0n
  let tools = left.cash + left.promo - fee
  if (accounts.agents[agent]?.activated === true) {
    const cash = smallerAmount(paid.cash / 100n, smallerAmount(left.cash, tools))
    const promo = smallerAmount(paid.promo / 100n, smallerAmount(left.promo, tools - cash))
    tools -= cash + promo
    accounts.referral.cash += cash
    if (op.promoToo) accounts.referral.promo += promo
    else accounts.granted -= promo
  }
  accounts.platform += tools
  accounts.treasury += fee
}

export function buyReferenceTaskPass(
  own: LedgerModelAgent,
  number: number,
  reserved: bigint,
): void {
  if (own.openPass !== null) throw new LedgerModelRejection('limit_reached')
  const price = LEDGER_MODEL_TASK_PASS.price * BigInt(LEDGER_MODEL_TASK_PASS.calls)
  if (own.promo + own.cash - reserved < price) throw new LedgerModelRejection('payment_required')
  const paid = takeFromReferencePurse(own, price)
  own.promo -= paid.promo
  own.cash -= paid.cash
  own.openPass = { ...paid, number, left: LEDGER_MODEL_TASK_PASS.calls, held: 0 }
}

/** The pass with a slot that none of the calls in the memory of the node has, for a call of this price. */
export function findUsableReferenceTaskPass(
  { openPass: open }: LedgerModelAgent,
  inMemory: readonly LedgerModelCall[],
  amount: bigint,
): LedgerModelTaskPass | null {
  if (open === null || amount < LEDGER_MODEL_TASK_PASS.price) return null
  const soft = inMemory.filter((call) => call.passNumber === open.number)
  return open.left > soft.length ? open : null
}

/** The pass that pays a call held in memory: its own, or one that was bought since. */
export function findTaskPassOfReferenceCall(
  own: LedgerModelAgent,
  call: LedgerModelCall,
  inMemory: readonly LedgerModelCall[],
): LedgerModelTaskPass | null {
  if (call.passNumber === null) return null
  if (own.openPass?.number !== call.passNumber)
    return findUsableReferenceTaskPass(own, inMemory, call.amount)
  return own.openPass.left > 0 ? own.openPass : null
}

/** A slot leaves its pass with its price, promotional credits first. */
export function takeReferenceTaskPassSlot(
  own: LedgerModelAgent,
  open: LedgerModelTaskPass,
  from: 'left' | 'held',
): LedgerModelPurse {
  const used = takeFromReferencePurse(open, LEDGER_MODEL_TASK_PASS.price)
  open.promo -= used.promo
  open.cash -= used.cash
  open[from] -= 1
  if (open.left + open.held === 0) own.openPass = null
  return used
}

export function endHeldReferenceTaskPassSlot(
  own: LedgerModelAgent,
  cost: bigint,
): LedgerModelPurse {
  const open = own.openPass as LedgerModelTaskPass
  if (cost > 0n) return takeReferenceTaskPassSlot(own, open, 'held')
  moveReferenceTaskPassSlots(open, 1, -1)
  return { promo: 0n, cash: 0n }
}

export function moveReferenceTaskPassSlots(
  open: LedgerModelTaskPass,
  left: number,
  held: number,
): void {
  open.left += left
  open.held += held
}
