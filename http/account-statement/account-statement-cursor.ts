import { invalidInputError } from '../../core/errors.ts'
import { asMicros } from '../../core/money.ts'
import type { AccountStatementPosition } from '../../persistence/account-statement/account-statement-store.ts'
import type { TimeBounds } from '../schemas/time-range.ts'

/** The statement and time range that a cursor continues. */
export interface AccountStatementCursorScope {
  /** The agent, or one of its Backpacks. */
  readonly id: string
  readonly timeBounds: TimeBounds
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
  const words = [...subjectWords(subject), before, snapshot, promo, cash, held]
  return Buffer.from(words.join(' '), 'utf8').toString('base64url')
}

/** Decodes a cursor. Throws `invalid_input` for one of another statement. */
export function decodeAccountStatementCursor(
  subject: AccountStatementCursorScope,
  cursor: string,
): AccountStatementPosition {
  const words = Buffer.from(cursor, 'base64url').toString('utf8').split(' ')
  const [id, from, to, before = '', snapshot = '', ...amounts] = words
  const isOwn = [id, from, to].join(' ') === subjectWords(subject).join(' ')
  const isWhole = amounts.length === 3 && amounts.every((amount) => AMOUNT.test(amount))
  if (!isOwn || !isWhole || !UUID.test(before) || !isSnapshot(snapshot))
    throw invalidInputError(
      '/cursor',
      'must be the next_cursor of a page with the same from and to',
    )
  const [promo, cash, held] = amounts.map((amount) => asMicros(BigInt(amount)))
  const zero = asMicros(0n)
  return {
    before,
    snapshot,
    balances: { promo: promo ?? zero, cash: cash ?? zero, held: held ?? zero },
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
