import { addMicros, asMicros, subtractMicros, ZERO_MICROS, type Micros } from '../../core/money.ts'

/** An agent's credits: free promotional, free cash, and what durable holds keep of both. */
export interface CreditBalances {
  readonly promo: Micros
  readonly cash: Micros
  readonly held: Micros
}

/** One row of the ledger that changes an agent's credits. */
export interface AgentLedgerRow {
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

/** One movement of an agent's credits: all rows that one commit wrote for one cause. */
export interface AccountStatementMovement {
  /** The id of its last row: its position in the ledger. */
  readonly id: string
  /**
   * The kind of its first row, `call` for all that the end of a call books, or `pass_call` for a call that a task
   * pass has paid: it changes no balance.
   */
  readonly kind: string
  /** The aggregate whose commit wrote it: the agent itself, or its creditor. */
  readonly owner: string
  readonly callId: string | null
  readonly memo: string | null
  readonly at: Date
  /** The change of the balances; negative for debits. */
  readonly change: CreditBalances
  /** The part that was a price, a share of one, or a fee. */
  readonly charged: Micros
  /** The part of a tip or a purchase that the station keeps. */
  readonly fee: Micros
  /** The other side's account in the ledger, unless it is the station's own. */
  readonly party: string | null
}

/** What the end of a call books for its agent in one commit. */
const CALL_TRANSFER_KINDS: ReadonlySet<string> = new Set(['charge', 'fee', 'share', 'release'])
const PRICE_TRANSFER_KINDS: ReadonlySet<string> = new Set(['charge', 'fee', 'share'])

/** Groups rows in any order into movements in ledger order, latest first. */
export function toAccountStatementMovements(
  rows: readonly AgentLedgerRow[],
  agentId: string,
): AccountStatementMovement[] {
  const movements = new Map<string, AccountStatementMovement>()
  for (const row of rows) {
    const key = movementGroupKey(row, agentId)
    movements.set(
      key,
      addLedgerRow(movements.get(key) ?? toEmptyMovement(row, agentId), row, agentId),
    )
  }
  return [...movements.values()].sort((a, b) => (a.id < b.id ? 1 : -1))
}

/** Fees that are part of another movement. */
const KIND_OF_FEE: Readonly<Record<string, string>> = { tip_fee: 'tip', sale_fee: 'sale' }

const movementKind = (row: AgentLedgerRow, agentId: string): string => {
  if (PRICE_TRANSFER_KINDS.has(row.kind) && row.debit.startsWith('pass:')) return 'pass_call'
  if (row.owner === agentId && CALL_TRANSFER_KINDS.has(row.kind)) return 'call'
  return KIND_OF_FEE[row.kind] ?? row.kind
}

/** Rows of one commit for one cause share instant, owner and cause. */
function movementGroupKey(row: AgentLedgerRow, agentId: string): string {
  const { owner, callId, memo, at } = row
  const kind = movementKind(row, agentId)
  const party = callId === null ? findCounterparty(row, agentId) : null
  return [owner, at.getTime(), kind, callId, party, callId === null ? memo : null].join('|')
}

function toEmptyMovement(row: AgentLedgerRow, agentId: string): AccountStatementMovement {
  const { id, owner, callId, memo, at } = row
  const change = { promo: ZERO_MICROS, cash: ZERO_MICROS, held: ZERO_MICROS }
  const kind = movementKind(row, agentId)
  return {
    id,
    kind,
    owner,
    callId,
    memo,
    at,
    change,
    charged: ZERO_MICROS,
    fee: ZERO_MICROS,
    party: null,
  }
}

function addLedgerRow(
  movement: AccountStatementMovement,
  row: AgentLedgerRow,
  agentId: string,
): AccountStatementMovement {
  const { amount } = row
  const isPrice = row.debit.startsWith(`agent:${agentId}:`) && PRICE_TRANSFER_KINDS.has(row.kind)
  return {
    ...movement,
    id: row.id > movement.id ? row.id : movement.id,
    change: applyLedgerRow(movement.change, row, agentId),
    charged: isPrice ? addMicros(movement.charged, amount) : movement.charged,
    fee: row.kind in KIND_OF_FEE ? addMicros(movement.fee, amount) : movement.fee,
    party: movement.party ?? findCounterparty(row, agentId),
  }
}

/** The accounts of each part: held credits have one of each kind. */
const BALANCE_ACCOUNTS: readonly (readonly [keyof CreditBalances, readonly string[]])[] = [
  ['promo', ['promo']],
  ['cash', ['cash']],
  ['held', ['held', 'held:promo']],
]

function applyLedgerRow(
  before: CreditBalances,
  { debit, credit, amount }: AgentLedgerRow,
  agentId: string,
) {
  const parts = { ...before }
  for (const [part, suffixes] of BALANCE_ACCOUNTS) {
    const accounts = suffixes.map((suffix) => `agent:${agentId}:${suffix}`)
    if (accounts.includes(debit)) parts[part] = subtractMicros(parts[part], amount)
    if (accounts.includes(credit)) parts[part] = addMicros(parts[part], amount)
  }
  return parts
}

/** Accounts of the station add nothing to the kind. */
const STATION_ACCOUNT_PATTERN = /^(platform|treasury|grants|royalty|referral|world|owed)\b/

/** The other side without the part of its account; null if it is the agent or the station. */
function findCounterparty({ debit, credit }: AgentLedgerRow, agentId: string): string | null {
  const own = `agent:${agentId}:`
  const other = debit.startsWith(own) ? credit : debit
  if (other.startsWith(own) || STATION_ACCOUNT_PATTERN.test(other)) return null
  return other.split(':').slice(0, 2).join(':')
}

/** Subtracts the changes of movements from balances. */
export const subtractMovementsFromBalances = (
  balances: CreditBalances,
  change: CreditBalances,
): CreditBalances => ({
  promo: subtractMicros(balances.promo, change.promo),
  cash: subtractMicros(balances.cash, change.cash),
  held: subtractMicros(balances.held, change.held),
})

/** Free and held credits together. */
export const totalCreditBalance = ({ promo, cash, held }: CreditBalances): Micros =>
  asMicros(promo + cash + held)
