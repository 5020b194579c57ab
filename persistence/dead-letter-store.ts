import type { DatabaseTransaction } from './idempotency/idempotent-writes.ts'
import type { Sql } from './data-plane.ts'

/** Work that failed for good, with what is needed to do it again. */
export interface DeadLetter {
  readonly id: string
  /** What kind of work: `timer`, `webhook`. */
  readonly kind: string
  /** Names the work within its kind: put again while it lies here, it is the same letter. */
  readonly key: string
  readonly reason: string
  /** JSON values, as whoever revives it reads them. */
  readonly payload: Record<string, unknown>
  readonly at: Date
  readonly replayedAt: Date | null
}

export type NewDeadLetter = Pick<DeadLetter, 'kind' | 'key' | 'reason' | 'payload'>

/** Makes the work of a letter due again, in the transaction that marks it as replayed. */
export type DeadLetterRequeuer = (tx: DatabaseTransaction, letter: DeadLetter) => Promise<void>

/** The timer that failed, before it became a letter. */
interface FailedTimer {
  readonly aggregateId: string
  readonly id: string
  /** As the database spells it. */
  readonly dueAt: string
  readonly reason: string
}

/** The dead letters of the service; `revivers` says, by kind, how each is done again. */
export function createDeadLetterStore(
  sql: Sql,
  revivers: Readonly<Record<string, DeadLetterRequeuer>> = {},
) {
  const known: Readonly<Record<string, DeadLetterRequeuer>> = { timer: requeueTimer, ...revivers }

  return {
    /** Keeps a letter; one of the same kind and key that was not replayed keeps its place. */
    put: (letter: NewDeadLetter, db: Sql | DatabaseTransaction = sql): Promise<void> =>
      insertDeadLetter(db, letter),

    /** Takes a timer out of the way, unless it was set anew, and keeps it as a letter, once on any number of nodes. */
    async bury({ aggregateId, id, dueAt, reason }: FailedTimer): Promise<void> {
      await sql.begin(async (tx) => {
        // As a text: the driver would cut a timestamp to milliseconds.
        const [row] = await tx<{ payload: Record<string, unknown> }[]>`
          delete from timers
           where aggregate_id = ${aggregateId} and id = ${id} and due_at = ${dueAt}::text::timestamptz
          returning to_jsonb(timers) as payload`
        if (row === undefined) return
        const { payload } = row
        await insertDeadLetter(tx, { kind: 'timer', key: `${aggregateId} ${id}`, reason, payload })
      })
    },

    /** Newest first; replayed ones only when asked for. */
    async list({ replayed = false, limit = 100 } = {}): Promise<DeadLetter[]> {
      const rows = await sql<LetterRow[]>`
        select * from dead_letters where ${replayed} or replayed_at is null
         order by at desc, id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /** Makes its work due again, once; null when there is no such letter or it was replayed before. */
    async replay(id: string): Promise<DeadLetter | null> {
      return sql.begin(async (tx) => {
        const [row] = await tx<LetterRow[]>`
          update dead_letters set replayed_at = clock_timestamp()
           where id = ${id} and replayed_at is null returning *`
        if (row === undefined) return null
        const letter = fromRow(row)
        const revive = known[letter.kind]
        if (revive === undefined) throw new Error(`nobody revives a ${letter.kind}`)
        await revive(tx, letter)
        return letter
      })
    },
  }
}
export type DeadLetterStore = ReturnType<typeof createDeadLetterStore>

async function insertDeadLetter(
  db: Sql | DatabaseTransaction,
  { kind, key, reason, payload }: NewDeadLetter,
): Promise<void> {
  await db`
    insert into dead_letters (id, kind, key, reason, payload)
    values (gen_random_uuid(), ${kind}, ${key}, ${reason}, ${JSON.stringify(payload)}::text::jsonb)
    on conflict (kind, key) where replayed_at is null do nothing`
}

/** As it was, and due now; a timer of its name that was set since is the newer one. */
async function requeueTimer(tx: DatabaseTransaction, { payload }: DeadLetter): Promise<void> {
  await tx`
    insert into timers (aggregate_id, aggregate_kind, id, due_at, command, input)
    select t.aggregate_id, t.aggregate_kind, t.id, clock_timestamp(), t.command, t.input
      from jsonb_populate_record(null::timers, ${JSON.stringify(payload)}::text::jsonb) t
    on conflict do nothing`
}

interface LetterRow {
  id: string
  kind: string
  key: string
  reason: string
  payload: Record<string, unknown>
  at: Date
  replayed_at: Date | null
}

const fromRow = (row: LetterRow): DeadLetter => ({
  id: row.id,
  kind: row.kind,
  key: row.key,
  reason: row.reason,
  payload: row.payload,
  at: row.at,
  replayedAt: row.replayed_at,
})
