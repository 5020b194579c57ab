import { parseExactJson } from '../../core/json/exact.ts'

/** Parses response bodies as JSON, CSV or text. */

const MAX_CSV_RECORDS_CHARS = 2 * 1024 * 1024
const MAX_RESPONSE_JSON_DEPTH = 100

/** Parses a body in the requested format; returns text and the reason when it does not parse. */
export function parseResponseBody(
  format: 'json' | 'text' | 'csv',
  body: Buffer,
  contentType: string | null,
): { data: unknown; parse_error?: string } {
  const text = decodeText(body, contentType)
  if (format === 'text') return { data: text }
  try {
    return { data: format === 'json' ? parseJson(text) : parseCsv(text) }
  } catch (error) {
    return { data: text, parse_error: error instanceof Error ? error.message : String(error) }
  }
}

/** Decodes by byte order mark, then Content-Type, else UTF-8. */
function decodeText(body: Buffer, contentType: string | null): string {
  const label =
    detectBomCharset(body) ?? /charset\s*=\s*"?([^\s;"]+)/i.exec(contentType ?? '')?.[1] ?? 'utf-8'
  try {
    return new TextDecoder(label).decode(body)
  } catch {
    return new TextDecoder().decode(body)
  }
}

/** Returns the charset of a byte order mark, or null. */
export function detectBomCharset(body: Uint8Array): string | null {
  if (body[0] === 0xff && body[1] === 0xfe) return 'utf-16le'
  if (body[0] === 0xfe && body[1] === 0xff) return 'utf-16be'
  return body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? 'utf-8' : null
}

/** Throws for depths at which serialization would overflow the stack, and for numbers that would arrive as null. */
function parseJson(text: string): unknown {
  const value = parseExactJson(text)
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MAX_RESPONSE_JSON_DEPTH)
      throw new RangeError(`nested deeper than ${MAX_RESPONSE_JSON_DEPTH} levels`)
    if (level.some((inner) => typeof inner === 'number' && !Number.isFinite(inner)))
      throw new RangeError('a number is too large for JSON')
    level = level.flatMap((inner) =>
      typeof inner === 'object' && inner !== null ? Object.values(inner) : [],
    )
  }
  return value
}

const CSV_FIELD = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|\n|\r|$)/y

/**
 * Parses CSV (RFC 4180): the first line names the fields; quotes may contain commas, quotes and line ends.
 */
function parseCsv(text: string): Record<string, string>[] {
  const rows: string[][] = []
  let row: string[] = []
  CSV_FIELD.lastIndex = 0
  while (CSV_FIELD.lastIndex < text.length) {
    const at = CSV_FIELD.lastIndex
    const match = CSV_FIELD.exec(text)
    if (match === null) throw new SyntaxError(`malformed CSV at character ${at}`)
    row.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? '')
    if (match[3] === ',' && CSV_FIELD.lastIndex < text.length) continue
    if (match[3] === ',') row.push('')
    rows.push(row)
    row = []
  }
  const [names = [], ...records] = rows.filter((cells) => cells.length > 1 || cells[0] !== '')
  return toCsvRecords(names, records)
}

/** A table is taken as a whole or not at all: no cell may be lost in a record. */
function assertNoLostCells(names: readonly string[], records: readonly string[][]): void {
  if (new Set(names).size < names.length) throw new SyntaxError('two columns have the same name')
  const at = records.findIndex((record) => record.length > names.length)
  if (at >= 0)
    throw new SyntaxError(
      `record ${at + 1} has ${records[at]?.length} cells, and the first line names ${names.length}`,
    )
}

/** Field names repeat in every record, so their total size is limited before the records are built. */
function toCsvRecords(
  names: readonly string[],
  records: readonly string[][],
): Record<string, string>[] {
  assertNoLostCells(names, records)
  const widest = Math.max(0, ...names.map((name) => name.length))
  const cells = records.reduce((total, record) => total + record.length, 0)
  if (cells * widest > MAX_CSV_RECORDS_CHARS)
    throw new RangeError('too large as records; ask for text')
  return records.map((record) =>
    Object.fromEntries(
      names.slice(0, record.length).map((name, column) => [name, record[column] ?? '']),
    ),
  )
}
