import type { Sql } from '../../persistence/start-postgres-and-redis.ts'

/** A second audit of the ledger from its rows alone: traces promotional credits and cash. */

/** One movement of the ledger. */
interface Row {
  readonly debit: string
  readonly credit: string
  readonly amount: bigint
  readonly callId: string | null
}

type AccountKind = 'promo' | 'cash' | 'held' | 'house' | 'outside'

/** The kind of money in an account. */
function accountKindOf(account: string): AccountKind {
  if (account.endsWith(':promo')) return 'promo'
  if (account.endsWith(':held')) return 'held'
  if (account.startsWith('world:') || account.startsWith('owed:')) return 'outside'
  return account === 'platform:tools' || account === 'treasury:fees' ? 'house' : 'cash'
}

/** Money held for one call: deposits by kind, and refunds by source. */
interface Hold {
  promo: bigint
  cash: bigint
  /** Captured into a cash account, which only held cash may pay. */
  toCash: bigint
  toHouse: bigint
}

export interface CreditFlowTotals {
  /** Promotional credits granted, and those still in an account. */
  readonly granted: bigint
  readonly held: bigint
  readonly spent: bigint
  readonly cashIn: bigint
  readonly cashOut: bigint
  /** Rows that break a rule. */
  readonly faults: readonly { rule: string; says: string }[]
}

/**
 * Traces promotional credits and cash from account to account, through the holds of calls. Reports
 * rows where one became the other.
 */
export async function auditPromoAndCashFlows(sql: Sql): Promise<CreditFlowTotals> {
  const rows = await sql<Row[]>`
    select debit, credit, amount_micros as amount, call_id::text as "callId"
      from transfers order by at, id`
  const reader = createFlowReader()
  for (const row of rows) reader.read(row)
  return reader.end()
}

function createFlowReader() {
  const sums = { granted: 0n, held: 0n, spent: 0n, cashIn: 0n, cashOut: 0n }
  /** Cash that the station earned, and cash that it paid. */
  const house = { earned: 0n, given: 0n }
  const holds = new Map<string, Hold>()
  const escrowOf = new Map<string, string>()
  const faults: { rule: string; says: string }[] = []
  const say = (rule: string, { debit, credit, amount }: Row) =>
    faults.push({ rule, says: `${amount} micro-USDC from ${debit} to ${credit}` })

  function holdOf({ debit, credit, callId }: Row): Hold {
    const name = `${accountKindOf(credit) === 'held' ? credit : debit} ${callId}`
    const known = holds.get(name)
    if (known !== undefined) return known
    const made = { promo: 0n, cash: 0n, toCash: 0n, toHouse: 0n }
    holds.set(name, made)
    return made
  }

  /** The owner of the promotional credits in an account; null for shared accounts. */
  function promoOwner(account: string): string | null {
    const [kind, id = ''] = account.split(':')
    if (kind === 'agent') return id
    return kind === 'bounty' || kind === 'pass' ? (escrowOf.get(id) ?? null) : null
  }

  function promoIn(row: Row): void {
    const { debit, credit, amount } = row
    sums.held += amount
    // A pool lends the bonus it received and gets its loans back.
    if (debit === 'grants:promo' || debit.startsWith('fleet:')) return
    const [from, to] = [promoOwner(debit), promoOwner(credit)]
    if (/^(bounty|pass):/.test(credit) && from !== null)
      escrowOf.set(credit.split(':')[1] ?? '', from)
    else if (to !== null && from !== to) say('promo-received', row)
  }

  function fromPromo(row: Row, to: AccountKind): void {
    const { debit, amount } = row
    if (debit === 'grants:promo') sums.granted += amount
    else sums.held -= amount
    if (to === 'house' || to === 'outside') sums.spent += amount
    if (to === 'cash') say('promo-became-cash', row)
    if (to === 'held') holdOf(row).promo += amount
  }

  function fromCash(row: Row, to: AccountKind): void {
    if (to === 'outside') sums.cashOut += row.amount
    if (to === 'house') house.earned += row.amount
    if (to === 'held') holdOf(row).cash += row.amount
  }

  function fromHeld(row: Row, to: AccountKind): void {
    const hold = holdOf(row)
    const { debit, credit, amount } = row
    const isRelease = to === 'cash' && sameAgent(debit, credit)
    if (to === 'promo') hold.promo -= amount
    else if (isRelease || credit.startsWith('fleet:')) hold.cash -= amount
    else if (to === 'cash') hold.toCash += amount
    else hold.toHouse += amount
  }

  function read(row: Row): void {
    const [from, to] = [accountKindOf(row.debit), accountKindOf(row.credit)]
    if (row.credit === 'grants:promo') sums.granted -= row.amount
    else if (to === 'promo') promoIn(row)
    // Promotional credits that the station pays out as promotional credits are no longer spent.
    if (from === 'house' && to === 'promo') sums.spent -= row.amount
    if (from === 'promo') fromPromo(row, to)
    else if (from === 'cash') fromCash(row, to)
    else if (from === 'held') fromHeld(row, to)
    else if (from === 'outside' && to === 'cash') sums.cashIn += row.amount
    else if (from === 'house' && to === 'cash') house.given += row.amount
  }

  /** The remainder of each hold was captured: promotional credits pay the station first. */
  function end(): CreditFlowTotals {
    for (const [name, { promo, cash, toCash, toHouse }] of holds) {
      const captured = toCash + toHouse
      const open = promo + cash - captured
      if (promo < 0n || cash < 0n || toCash > cash || open < 0n)
        faults.push({ rule: 'promo-became-cash', says: `the hold of ${name}` })
      if (captured > 0n) sums.spent += promo
      else sums.held += promo
      house.earned += cash - toCash
    }
    if (house.given > house.earned)
      faults.push({ rule: 'promo-became-cash', says: `the house gave ${house.given} in cash` })
    return { ...sums, faults }
  }
  return { read, end }
}

const sameAgent = (a: string, b: string): boolean => a.split(':')[1] === b.split(':')[1]
