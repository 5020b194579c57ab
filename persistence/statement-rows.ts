import { add, micros, subtract, ZERO, type Micros } from '../core/money.ts'

/** What an agent has: free promotional credits, free cash, and what durable holds keep of both. */
export interface Balances {
  readonly promo: Micros
  readonly cash: Micros
  readonly held: Micros
}

/** One row of the ledger that touches an agent's credits. */
export interface LedgerRow {
  readonly id: string
  /** The aggregate whose commit wrote it. */
  readonly owner: string
  readonly debit: string
  readonly credit: string
  readonly amount: Micros
  readonly kind: string
  readonly callId: string | null
  readonly memo: string | null
  readonly at: Date
}

/** One movement of an agent's credits, of all the rows that one commit wrote for it. */
export interface StatementMovement {
  /** The id of its last row: its place in the ledger. */
  readonly id: string
  /** The kind of its first row, or `call` for all that the end of a call books. */
  readonly kind: string
  /** The aggregate whose commit wrote it: the agent itself, or who credited it. */
  readonly owner: string
  readonly callId: string | null
  readonly memo: string | null
  readonly at: Date
  /** What it changed; below zero is what went away. */
  readonly change: Balances
  /** What of it was a price, a share of one, or a fee. */
  readonly charged: Micros
  /** The part that a tip left to the station. */
  readonly fee: Micros
  /** The account on the other side that is not the station's own, as the ledger names it. */
  readonly party: string | null
}

/** What the end of a call books for its agent in one commit. */
const OF_CALL: ReadonlySet<string> = new Set(['charge', 'fee', 'share', 'release'])
const PRICED: ReadonlySet<string> = new Set(['charge', 'fee', 'share'])

/** Rows in any order, as movements in the order of the ledger, the latest first. */
export function movementsOf(rows: readonly LedgerRow[], agentId: string): StatementMovement[] {
  const movements = new Map<string, StatementMovement>()
  for (const row of rows) {
    const key = groupOf(row, agentId)
    movements.set(key, joined(movements.get(key) ?? begun(row, agentId), row, agentId))
  }
  return [...movements.values()].sort((a, b) => (a.id < b.id ? 1 : -1))
}

const kindOf = (row: LedgerRow, agentId: string): string => {
  if (row.owner === agentId && OF_CALL.has(row.kind)) return 'call'
  return row.kind === 'tip_fee' ? 'tip' : row.kind
}

/** What one commit wrote for one cause: it has one instant, one owner and one cause. */
function groupOf(row: LedgerRow, agentId: string): string {
  const { owner, callId, memo, at } = row
  const kind = kindOf(row, agentId)
  const party = callId === null ? partyOf(row, agentId) : null
  return [owner, at.getTime(), kind, callId, party, callId === null ? memo : null].join('|')
}

function begun(row: LedgerRow, agentId: string): StatementMovement {
  const { id, owner, callId, memo, at } = row
  const change = { promo: ZERO, cash: ZERO, held: ZERO }
  const kind = kindOf(row, agentId)
  return { id, kind, owner, callId, memo, at, change, charged: ZERO, fee: ZERO, party: null }
}

function joined(movement: StatementMovement, row: LedgerRow, agentId: string): StatementMovement {
  const { amount } = row
  const isPrice = row.debit.startsWith(`agent:${agentId}:`) && PRICED.has(row.kind)
  return {
    ...movement,
    id: row.id > movement.id ? row.id : movement.id,
    change: changed(movement.change, row, agentId),
    charged: isPrice ? add(movement.charged, amount) : movement.charged,
    fee: row.kind === 'tip_fee' ? add(movement.fee, amount) : movement.fee,
    party: movement.party ?? partyOf(row, agentId),
  }
}

/** The accounts of each part: what is held has one for each kind of credits. */
const PARTS: readonly (readonly [keyof Balances, readonly string[]])[] = [
  ['promo', ['promo']],
  ['cash', ['cash']],
  ['held', ['held', 'held:promo']],
]

function changed(before: Balances, { debit, credit, amount }: LedgerRow, agentId: string) {
  const parts = { ...before }
  for (const [part, suffixes] of PARTS) {
    const accounts = suffixes.map((suffix) => `agent:${agentId}:${suffix}`)
    if (accounts.includes(debit)) parts[part] = subtract(parts[part], amount)
    if (accounts.includes(credit)) parts[part] = add(parts[part], amount)
  }
  return parts
}

/** Accounts of the station itself say nothing beyond the kind. */
const OF_STATION = /^(platform|treasury|grants|royalty|referral|world|owed)\b/

/** The other side without the part of its account; null where it is the agent or the station. */
function partyOf({ debit, credit }: LedgerRow, agentId: string): string | null {
  const own = `agent:${agentId}:`
  const other = debit.startsWith(own) ? credit : debit
  if (other.startsWith(own) || OF_STATION.test(other)) return null
  return other.split(':').slice(0, 2).join(':')
}

/** The sum of what movements changed. */
export const less = (balances: Balances, change: Balances): Balances => ({
  promo: subtract(balances.promo, change.promo),
  cash: subtract(balances.cash, change.cash),
  held: subtract(balances.held, change.held),
})

/** All of it: what can be spent and what is held. */
export const totalOf = ({ promo, cash, held }: Balances): Micros => micros(promo + cash + held)
