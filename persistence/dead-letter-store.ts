import type { DatabaseTransaction } from './idempotency/idempotent-writes.ts'
import type { Sql } from './start-postgres-and-redis.ts'

/** Work that failed for good, with the data needed to redo it. */
export interface DeadLetteredWork {
  readonly id: string
  /** The kind of work: `timer`, `webhook`. */
  readonly kind: string
  /** Identifies the work within its kind: storing it again keeps the same letter. */
  readonly key: string
  readonly reason: string
  /** JSON values, as the requeuer reads them. */
  readonly payload: Record<string, unknown>
  readonly at: Date
  readonly replayedAt: Date | null
}

export type NewDeadLetter = Pick<DeadLetteredWork, 'kind' | 'key' | 'reason' | 'payload'>

/** Makes the work of a letter due again, in the transaction that marks it as replayed. */
export type DeadLetterRequeuer = (
  tx: DatabaseTransaction,
  letter: DeadLetteredWork,
) => Promise<void>

/** The failed timer, before it becomes a letter. */
interface FailedTimer {
  readonly aggregateId: string
  readonly id: string
  /** As the database formats it. */
  readonly dueAt: string
  readonly reason: string
}

/** Stores the dead letters of the service; `revivers` redo them, by kind. */
export function createDeadLetterStore(
  sql: Sql,
  revivers: Readonly<Record<string, DeadLetterRequeuer>> = {},
) {
  const known: Readonly<Record<string, DeadLetterRequeuer>> = { timer: requeueTimer, ...revivers }

  return {
    /** Stores a letter; an unreplayed one of the same kind and key is kept instead. */
    put: (letter: NewDeadLetter, db: Sql | DatabaseTransaction = sql): Promise<void> =>
      insertDeadLetter(db, letter),

    /** Turns a timer into a letter, unless it was set anew; once, over any number of nodes. */
    async bury({ aggregateId, id, dueAt, reason }: FailedTimer): Promise<void> {
      await sql.begin(async (tx) => {
        // As text: the driver would truncate a timestamp to milliseconds.
        const [row] = await tx<{ payload: Record<string, unknown> }[]>`
          delete from timers
           where aggregate_id = ${aggregateId} and id = ${id} and due_at = ${dueAt}::text::timestamptz
          returning to_jsonb(timers) as payload`
        if (row === undefined) return
        const { payload } = row
        await insertDeadLetter(tx, { kind: 'timer', key: `${aggregateId} ${id}`, reason, payload })
      })
    },

    /** Newest first; without replayed ones by default. */
    async list({ replayed = false, limit = 100 } = {}): Promise<DeadLetteredWork[]> {
      const rows = await sql<LetterRow[]>`
        select * from dead_letters where ${replayed} or replayed_at is null
         order by at desc, id desc limit ${limit}`
      return rows.map(fromRow)
    },

    /**
     * Makes its work due again, once; null if there is no such letter or it was replayed before.
     */
    async replay(id: string): Promise<DeadLetteredWork | null> {
      return sql.begin(async (tx) => {
        const [row] = await tx<LetterRow[]>`
          update dead_letters set replayed_at = clock_timestamp()
           where id = ${id} and replayed_at is null returning *`
        if (row === undefined) return null
        const letter = fromRow(row)
        const revive = known[letter.kind]
        if (revive === undefined) throw new Error(`no handler revives a ${letter.kind}`)
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

/** Restores the timer, due now; a timer of the same id set since then takes precedence. */
async function requeueTimer(tx: DatabaseTransaction, { payload }: DeadLetteredWork): Promise<void> {
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

const fromRow = (row: LetterRow): DeadLetteredWork => ({
  id: row.id,
  kind: row.kind,
  key: row.key,
  reason: row.reason,
  payload: row.payload,
  at: row.at,
  replayedAt: row.replayed_at,
})
