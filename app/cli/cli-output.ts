import { withExactIntegers } from '../../core/json/exact.ts'

/** What `gas` prints. */

/** Prints a line to stdout. */
export const printLine = (text: string): void => void process.stdout.write(`${text}\n`)

/** Prints a value as JSON on one line. Amounts (bigint) become strings. */
export const printJson = (value: unknown): void => printLine(toTerminalSafeJsonText(value))

/** JSON text. Characters that control a terminal or its reading direction are escaped. */
export const toTerminalSafeJsonText = (value: unknown): string =>
  withoutControls(
    JSON.stringify(value, (_key, part: unknown) =>
      typeof part === 'bigint' ? String(part) : part,
    ),
  )

const withoutControls = (text: string): string =>
  text.replace(/[^\P{Cc}\n]|[\p{Cf}\u2028\u2029]/gu, escapeUnits)

const escapeUnits = (characters: string): string =>
  characters
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('')

/** Prints a JSON document. */
export const printJsonDocument = (document: unknown, forPrograms: boolean): void =>
  printLine(toDocumentText(document, forPrograms))

/** The text of a document of a station, with all digits: indented for people, on one line for programs. */
export function toDocumentText(document: unknown, forPrograms: boolean): string {
  const indent = forPrograms ? 0 : 2
  const write = withExactIntegers((value) => JSON.stringify(value, null, indent))
  return withoutControls(write(document))
}

/** Agents' verbs print JSON with `--json` and whenever stdout is no terminal. */
export const shouldPrintJson = (json: boolean): boolean => json || process.stdout.isTTY !== true

type Row = Readonly<Record<string, unknown>>

/**
 * Prints objects: for programs one as JSON a line, for people a table with the named columns. A
 * column is a field, or a path of fields (`fuse.per_day_usdc`).
 */
export function printTableOrJsonLines(
  rows: readonly Row[],
  columns: readonly string[],
  forPrograms: boolean,
): void {
  if (forPrograms) rows.forEach(printJson)
  else if (rows.length === 0) console.error('none')
  else printTable([columns, ...rows.map((row) => columns.map((column) => cellOf(row, column)))])
}

const MAX_CELL_CHARS = 60

function printTable(lines: readonly (readonly string[])[]): void {
  const widths = (lines[0] ?? []).map((_, column) =>
    Math.max(...lines.map((cells) => (cells[column] ?? '').length)),
  )
  for (const cells of lines)
    printLine(
      cells
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
}

function cellOf(row: Row, path: string): string {
  let value: unknown = row
  for (const field of path.split('.'))
    value = typeof value === 'object' && value !== null ? (value as Row)[field] : undefined
  if (value === undefined || value === null) return '-'
  const text = typeof value === 'string' ? value : toTerminalSafeJsonText(value)
  const line = toTerminalSafeText(text)
  return line.length > MAX_CELL_CHARS ? `${line.slice(0, MAX_CELL_CHARS - 1)}…` : line
}

/** Text of others must not control the terminal: no control characters, no direction overrides. */
export const toTerminalSafeText = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, ' ')

export const toErrorMessage = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
