import type { Walk } from '../persistence/statement.ts'
import { csvRecord, type Cell } from './csv.ts'
import type { Entry, Source } from './statement.ts'

/** Movements that are in memory at once. */
const AT_ONCE = 500

type Column = readonly [name: string, cell: (entry: Entry) => Cell]

const amount = (usdc: number | null | undefined): Cell =>
  usdc === null || usdc === undefined ? null : { number: plain(usdc) }

/** Without an exponent, which a small number has in JSON. */
const plain = (usdc: number): string => usdc.toFixed(6).replace(/\.?0+$/, '')

const COLUMNS: readonly Column[] = [
  ['movement_id', (entry) => entry.movement_id],
  ['created_at', (entry) => entry.created_at],
  ['kind', (entry) => entry.kind],
  ['description', (entry) => entry.description],
  ['amount_usdc', (entry) => amount(entry.amount_usdc)],
  ['promo_usdc', (entry) => amount(entry.promo_usdc)],
  ['cash_usdc', (entry) => amount(entry.cash_usdc)],
  ['held_usdc', (entry) => amount(entry.held_usdc)],
  ['fee_usdc', (entry) => amount(entry.fee_usdc)],
  ['balance_promo_usdc', (entry) => amount(entry.balance?.promo_usdc)],
  ['balance_cash_usdc', (entry) => amount(entry.balance?.cash_usdc)],
  ['balance_held_usdc', (entry) => amount(entry.balance?.held_usdc)],
  ['balance_total_usdc', (entry) => amount(entry.balance?.total_usdc)],
  ['spent_total_usdc', (entry) => amount(entry.spent_total_usdc)],
  ['rail', (entry) => entry.rail],
  ['call_id', (entry) => entry.call_id],
  ['tool', (entry) => entry.tool],
  ['task_id', (entry) => entry.task_id],
  ['backpack_id', (entry) => entry.backpack_id],
  ['counterparty', (entry) => entry.counterparty],
  ['agent_id', (entry) => entry.agent_id],
  ['reference', (entry) => entry.reference],
  ['memo', (entry) => entry.memo],
]

/**
 * The whole statement behind a place as CSV, the header first; a page of movements is in memory at a
 * time, and the next is read when the reader has taken this one.
 */
export async function* statementCsv(source: Source, walk: Walk): AsyncGenerator<string> {
  yield csvRecord(COLUMNS.map(([name]) => name))
  for (let at: Walk | null = walk; at !== null;) {
    const { entries, next } = await source.page(at, AT_ONCE)
    yield entries.map((entry) => csvRecord(COLUMNS.map(([, cell]) => cell(entry)))).join('')
    at = next
  }
}
