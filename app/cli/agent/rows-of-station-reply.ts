/** Reads the answers of a station. */

type Row = Readonly<Record<string, unknown>>

/** The rows of a list: the member of that name. */
export function rowsOfAnswer(answer: Row, name: string): Row[] {
  const rows = answer[name]
  return Array.isArray(rows) ? (rows as Row[]) : []
}
