import { invalidInputError, ServiceError } from '../../core/errors.ts'
import { asMicros } from '../../core/money.ts'
import type { AccountStatementPosition } from '../../persistence/account-statement/account-statement-store.ts'
import type { TimeBounds } from '../schemas/time-range.ts'

/** The statement and time range that a cursor continues. */
export interface AccountStatementCursorScope {
  /** The agent, or one of its Backpacks. */
  readonly id: string
  readonly timeBounds: TimeBounds
  /** The history of the database (decision 450): a snapshot means nothing in another one. */
  readonly lineage: string
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const AMOUNT = /^-?\d{1,18}$/
const XID = /^\d{1,18}$/

/** Encodes the `next_cursor` of a page. It continues the same walk of the same subject only. */
export function encodeAccountStatementCursor(
  subject: AccountStatementCursorScope,
  { before, snapshot, balances }: AccountStatementPosition,
): string {
  const { promo, cash, held } = balances
  const words = [...subjectWords(subject), before, snapshot, promo, cash, held, subject.lineage]
  return Buffer.from(words.join(' '), 'utf8').toString('base64url')
}

/** Decodes a cursor. Throws for one of another statement, or of another history of the database. */
export function decodeAccountStatementCursor(
  subject: AccountStatementCursorScope,
  cursor: string,
): AccountStatementPosition {
  const words = Buffer.from(cursor, 'base64url').toString('utf8').split(' ')
  const [id, from, to, before = '', snapshot = '', promo = '', cash = '', held = '', ...more] =
    words
  const amounts = [promo, cash, held]
  // Cursors of version 1.0.0 do not name it.
  const [lineage = subject.lineage] = more
  const isOwn = [id, from, to].join(' ') === subjectWords(subject).join(' ')
  const isWhole = more.length <= 1 && amounts.every((amount) => AMOUNT.test(amount))
  if (!isOwn || !isWhole || !UUID.test(before) || !isSnapshot(snapshot))
    throw invalidInputError(
      '/cursor',
      'must be the next_cursor of a page with the same from and to',
    )
  if (lineage !== subject.lineage) throw new ServiceError('cursor_of_another_history')
  const toMicros = (amount: string) => asMicros(BigInt(amount))
  return {
    before,
    snapshot,
    balances: { promo: toMicros(promo), cash: toMicros(cash), held: toMicros(held) },
  }
}

const subjectWords = ({ id, timeBounds: { from, to } }: AccountStatementCursorScope) => [
  id,
  from === undefined ? '-' : String(+from),
  to === undefined ? '-' : String(+to),
]

/** A PostgreSQL snapshot: the oldest running transaction, the next one, and the running ones. */
function isSnapshot(text: string): boolean {
  const [xmin = '', xmax = '', running, ...rest] = text.split(':')
  if (running === undefined || rest.length > 0) return false
  const ids = running === '' ? [] : running.split(',')
  if (![xmin, xmax, ...ids].every((id) => XID.test(id))) return false
  const [least, end, ...xip] = [xmin, xmax, ...ids].map(BigInt)
  const steps = [least ?? 0n, ...xip]
  const isOrdered = xip.every((id, at) => id >= (steps[at] ?? 0n) && id < (end ?? 0n))
  return (least ?? 0n) > 0n && (least ?? 0n) <= (end ?? 0n) && isOrdered
}
