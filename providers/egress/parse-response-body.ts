import { parseExactJson } from '../../core/json/exact.ts'
import { findCostlyJson } from '../../core/json/cheap.ts'
import { LIMITS } from '../../core/limits.ts'

/** Parses response bodies as JSON, CSV or text; a large one in a worker process only. */

const MAX_RESPONSE_JSON_DEPTH = 100

export type ResponseFormat = 'json' | 'text' | 'csv'

/** JSON text of the value, which costs its reader little; else text, with the reason when it was to be parsed. */
export type ParsedBody =
  | { readonly json: string }
  | { readonly data: string; readonly parse_error?: string }

interface BodyWithType {
  readonly body: Uint8Array | string
  readonly contentType: string | null
}

/** Parses a body in the requested format; returns text and the reason when it does not parse, or is too large for an answer. */
export function parseResponseBody(format: ResponseFormat, source: BodyWithType): ParsedBody {
  const text = decodeResponseText(source)
  if (format === 'text') return { data: text }
  try {
    return { json: format === 'json' ? checkJson(text) : csvToJson(text) }
  } catch (error) {
    return { data: text, parse_error: error instanceof Error ? error.message : String(error) }
  }
}

/** Decodes by byte order mark, then Content-Type, else UTF-8. */
export function decodeResponseText({ body, contentType }: BodyWithType): string {
  if (typeof body === 'string') return body
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
function checkJson(text: string): string {
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
  assertJsonCheap(value)
  return text
}

const CSV_FIELD = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|\n|\r|$)/y

/**
 * Parses CSV (RFC 4180): the first line names the fields; quotes may contain commas, quotes and line ends.
 * Cells are counted before records are built.
 */
function csvToJson(text: string): string {
  const rows: string[][] = []
  let row: string[] = []
  let cells = 0
  CSV_FIELD.lastIndex = 0
  while (CSV_FIELD.lastIndex < text.length) {
    const at = CSV_FIELD.lastIndex
    const match = CSV_FIELD.exec(text)
    if (match === null) throw new SyntaxError(`malformed CSV at character ${at}`)
    cells += 1
    if (cells > LIMITS.resultValues) throw tooLargeError()
    row.push(match[1]?.replaceAll('""', '"') ?? match[2] ?? '')
    if (match[3] === ',' && CSV_FIELD.lastIndex < text.length) continue
    if (match[3] === ',') row.push('')
    rows.push(row)
    row = []
  }
  const [names = [], ...records] = rows.filter((cells) => cells.length > 1 || cells[0] !== '')
  return toRecordsJson(names, records)
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

/** Field names repeat in every record, so the size is limited before the records are built. */
function toRecordsJson(names: readonly string[], records: readonly string[][]): string {
  assertNoLostCells(names, records)
  const cells = records.reduce((total, record) => total + record.length, 0)
  const widest = Math.max(0, ...names.map((name) => name.length))
  if (cells * widest > LIMITS.toolOutputBytes) throw tooLargeError()
  const built = records.map((record) =>
    Object.fromEntries(
      names.slice(0, record.length).map((name, column) => [name, record[column] ?? '']),
    ),
  )
  assertJsonCheap(built)
  const json = JSON.stringify(built)
  if (Buffer.byteLength(json) > LIMITS.toolOutputBytes) throw tooLargeError()
  return json
}

function assertJsonCheap(value: unknown): void {
  const fault = findCostlyJson(value)
  if (fault !== null) throw new RangeError(`${fault}; ask for text`)
}

const tooLargeError = () => new RangeError('too large as records; ask for text')
