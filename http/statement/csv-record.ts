/** A cell of a CSV file: an amount stays a number, everything else is text. */
export type CsvCell = { readonly number: string } | string | null

/** What a spreadsheet would take for a formula. */
const FORMULA_START = /^[=+\-@\t\r]/
const QUOTED_CHARS = /[",\r\n]/

/**
 * One record of RFC 4180 with its line end. A text that a spreadsheet would run as a formula begins
 * with an apostrophe; numbers are written as they are, negative ones too.
 */
export const formatCsvRecord = (cells: readonly CsvCell[]): string =>
  `${cells.map(formatCell).join(',')}\r\n`

function formatCell(cell: CsvCell): string {
  if (cell === null) return ''
  if (typeof cell !== 'string') return cell.number
  const safe = FORMULA_START.test(cell) ? `'${cell}` : cell
  return QUOTED_CHARS.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
