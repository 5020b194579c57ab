import { ZERO_MICROS } from '../../../core/money.ts'
import { describeLedgerMovement } from '../../../http/account-statement/ledger-movement-description.ts'
import type { Sql } from '../../../persistence/start-postgres-and-redis.ts'
import {
  subtractMovementsFromBalances,
  totalCreditBalance,
} from '../../../persistence/account-statement/account-statement-movements.ts'
import {
  createAccountStatementStore,
  type AccountStatementLine,
  type AccountStatementPosition,
} from '../../../persistence/account-statement/account-statement-store.ts'

/** Finds faults in the account statements of a database. */

/** Upper bound of checked agents; larger databases contain many similar ones. */
const MAX_AGENTS = 40
const LINES_PER_PAGE = 50

/**
 * Returns the faults: running balances that do not add up, do not start at zero or differ from the
 * ledger, and movements without a description.
 */
export async function findAccountStatementFaults(sql: Sql): Promise<string[]> {
  const agents = await sql<{ id: string }[]>`
    select id from actors where kind = 'agent' order by id desc limit ${MAX_AGENTS}`
  const faults = await Promise.all(agents.map(({ id }) => findAgentStatementFaults(sql, id)))
  return faults.flat()
}

async function findAgentStatementFaults(sql: Sql, agentId: string): Promise<string[]> {
  const store = createAccountStatementStore(sql)
  const lines: AccountStatementLine[] = []
  let walk: AccountStatementPosition | null = await store.begin(agentId, {})
  let left = walk.balances
  while (walk !== null) {
    const page = await store.page(agentId, {}, walk, LINES_PER_PAGE)
    lines.push(...page.lines)
    walk = page.next
  }
  const faults: string[] = []
  for (const line of lines) {
    for (const part of ['promo', 'cash', 'held'] as const) {
      if (line.after[part] !== left[part])
        faults.push(
          `${agentId} ${line.id}: ${part} after it is ${line.after[part]}, not ${left[part]}`,
        )
    }
    left = subtractMovementsFromBalances(left, line.change)
    const { description } = describeLedgerMovement(line, agentId, null)
    if (!/^[A-Z]/.test(description)) faults.push(`${agentId} ${line.id}: no words for ${line.kind}`)
  }
  if (
    totalCreditBalance(left) !== ZERO_MICROS ||
    left.held !== ZERO_MICROS ||
    left.cash !== ZERO_MICROS
  )
    faults.push(`${agentId}: begins with ${totalCreditBalance(left)}`)
  return faults
}
