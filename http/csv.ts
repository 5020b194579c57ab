/** A cell of a CSV file: an amount stays a number, everything else is text. */
export type Cell = { readonly number: string } | string | null

/** What a spreadsheet would take for a formula. */
const FORMULA = /^[=+\-@\t\r]/
const SPECIAL = /[",\r\n]/

/**
 * One record of RFC 4180 with its line end. A text that a spreadsheet would run as a formula begins
 * with an apostrophe; numbers are written as they are, negative ones too.
 */
export const csvRecord = (cells: readonly Cell[]): string => `${cells.map(cellText).join(',')}\r\n`

function cellText(cell: Cell): string {
  if (cell === null) return ''
  if (typeof cell !== 'string') return cell.number
  const safe = FORMULA.test(cell) ? `'${cell}` : cell
  return SPECIAL.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
