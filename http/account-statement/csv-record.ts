/** A cell of a CSV file: amounts stay numbers, everything else is text. */
export type CsvCell = { readonly number: string } | string | null

/** Prefixes that a spreadsheet reads as a formula. */
const FORMULA_START = /^[=+\-@\t\r]/
const QUOTED_CHARS = /[",\r\n]/

/**
 * Formats one record of RFC 4180 with its line end. Text that a spreadsheet would run as a formula gets an
 * apostrophe in front; numbers, also negative ones, stay as they are.
 */
export const formatCsvRecord = (cells: readonly CsvCell[]): string =>
  `${cells.map(formatCell).join(',')}\r\n`

function formatCell(cell: CsvCell): string {
  if (cell === null) return ''
  if (typeof cell !== 'string') return cell.number
  const safe = FORMULA_START.test(cell) ? `'${cell}` : cell
  return QUOTED_CHARS.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
