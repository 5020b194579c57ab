import { Type } from 'typebox'
import { invalidInputError } from '../../core/errors.ts'
import { LIMITS } from '../../core/limits.ts'

/** Paging parameters of every list (decision 17). */
export const PaginationQuery = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: LIMITS.pageMax, default: LIMITS.pageDefault }),
  ),
  cursor: Type.Optional(
    Type.String({ maxLength: 512, description: '`next_cursor` of the previous page' }),
  ),
}

/** Formats of cursor values. */
export const CURSOR_PATTERNS = {
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  integer: /^\d{1,18}$/,
  /** Milliseconds and an id. */
  instantAndId: /^\d{1,15} [A-Za-z0-9_-]{1,64}$/,
  /** The same with a UUID; bounded to instants that PostgreSQL and JavaScript write alike. */
  instantAndUuid: /^\d{1,14} [0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  text: /^[^\0]{1,256}$/,
}

/** Reads one row more than the page, to know whether there is a next page. */
export async function paginate<T>(
  query: { limit?: number; cursor?: string },
  form: RegExp,
  read: (limit: number, position: string | null) => Promise<T[]>,
  positionOf: (row: T) => string,
): Promise<{ rows: T[]; next_cursor: string | null }> {
  const { limit = LIMITS.pageDefault, cursor } = query
  const position = cursor === undefined ? null : decodeCursor(cursor, form)
  const rows = await read(limit + 1, position)
  const last = rows[limit - 1]
  if (rows.length <= limit || last === undefined) return { rows, next_cursor: null }
  return { rows: rows.slice(0, limit), next_cursor: encodeCursor(positionOf(last)) }
}

const encodeCursor = (position: string): string =>
  Buffer.from(position, 'utf8').toString('base64url')

function decodeCursor(cursor: string, form: RegExp): string {
  const position = Buffer.from(cursor, 'base64url').toString('utf8')
  if (form.test(position) && encodeCursor(position) === cursor) return position
  throw invalidInputError('/cursor', 'must be the next_cursor of an earlier page')
}
