import type { AccountStatementPosition } from '../../persistence/account-statement/account-statement-store.ts'
import { formatCsvRecord, type CsvCell } from './csv-record.ts'
import type {
  AccountStatementEntry,
  AccountStatementSource,
} from './account-statement-entry-pages.ts'

/** Statements of account as CSV. */

/** Movements in memory at a time. */
const PAGE_MOVEMENTS = 500

type Column = readonly [name: string, cell: (entry: AccountStatementEntry) => CsvCell]

const toAmountCell = (usdc: number | null | undefined): CsvCell =>
  usdc === null || usdc === undefined ? null : { number: toPlainDecimal(usdc) }

/** Formats without an exponent, which JSON uses for small numbers. */
const toPlainDecimal = (usdc: number): string => usdc.toFixed(6).replace(/\.?0+$/, '')

const COLUMNS: readonly Column[] = [
  ['movement_id', (entry) => entry.movement_id],
  ['created_at', (entry) => entry.created_at],
  ['kind', (entry) => entry.kind],
  ['description', (entry) => entry.description],
  ['amount_usdc', (entry) => toAmountCell(entry.amount_usdc)],
  ['promo_usdc', (entry) => toAmountCell(entry.promo_usdc)],
  ['cash_usdc', (entry) => toAmountCell(entry.cash_usdc)],
  ['held_usdc', (entry) => toAmountCell(entry.held_usdc)],
  ['fee_usdc', (entry) => toAmountCell(entry.fee_usdc)],
  ['balance_promo_usdc', (entry) => toAmountCell(entry.balance?.promo_usdc)],
  ['balance_cash_usdc', (entry) => toAmountCell(entry.balance?.cash_usdc)],
  ['balance_held_usdc', (entry) => toAmountCell(entry.balance?.held_usdc)],
  ['balance_total_usdc', (entry) => toAmountCell(entry.balance?.total_usdc)],
  ['spent_total_usdc', (entry) => toAmountCell(entry.spent_total_usdc)],
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
 * Yields the whole statement from a cursor as CSV, header first. One page of movements is in memory; the next
 * is read when the reader has consumed it.
 */
export async function* generateAccountStatementCsv(
  source: AccountStatementSource,
  walk: AccountStatementPosition,
): AsyncGenerator<string> {
  yield formatCsvRecord(COLUMNS.map(([name]) => name))
  for (let at: AccountStatementPosition | null = walk; at !== null;) {
    const { entries, next } = await source.page(at, PAGE_MOVEMENTS)
    yield entries.map((entry) => formatCsvRecord(COLUMNS.map(([, cell]) => cell(entry)))).join('')
    at = next
  }
}
