import { createHash } from 'node:crypto'
import type { DatabaseTransaction } from '../idempotency/idempotent-writes.ts'
import type { Sql } from '../start-postgres-and-redis.ts'

/** Which cursors of streams belong to the history of this database. */

const STREAMS = ['signals', 'outbox'] as const
/** The tables whose ids are cursors of streams. */
export type CursorStream = (typeof STREAMS)[number]

/** Which ids have been cursors in the history of this database (decision 450). */
export interface CursorEpochs {
  /** Whether an id may have been given out in this history; if not, its client has missed an unknown part. */
  issued(stream: CursorStream, id: bigint): boolean
  /** Names the history: it changes when the database is restored or promoted. */
  lineage(): string
  /** Notices a server that was replaced; resolves to whether it goes on with another history. */
  renew(): Promise<boolean>
}

interface Epoch {
  readonly stream: CursorStream
  readonly first_id: bigint
  readonly last_id: bigint | null
}

/** Ids are skipped at random up to this, so that two histories of one past share none; far below 2^53 in all. */
const MAX_SKIPPED_IDS = 2 ** 30
/** What a sequence of PostgreSQL runs ahead of its table after a crash, also in a copy. */
const SEQUENCE_LOG_AHEAD = 32

/**
 * Enters the current epoch of the database. A new one begins when the server was started anew, since only then
 * can it hold a backup or a copy; ids of before stay cursors. In another lineage they are all unknown: where the
 * histories part is not known.
 */
export async function enterCursorEpochs(sql: Sql): Promise<CursorEpochs> {
  let current = await readEpochs(sql)
  return {
    issued: (stream, id) =>
      id === 0n ||
      current.epochs.some(
        ({ stream: of, first_id: first, last_id: last }) =>
          of === stream && id >= first && (last === null || id <= last),
      ),
    lineage: () => current.lineage,
    async renew() {
      const before = current.lineage
      current = await readEpochs(sql)
      return current.lineage !== before
    },
  }
}

async function readEpochs(sql: Sql): Promise<{ lineage: string; epochs: readonly Epoch[] }> {
  const server = await readServer(sql)
  const lineages: string[] = []
  // Each in its own transaction: commits add to both tables, in any order.
  for (const stream of STREAMS)
    lineages.push(await sql.begin((tx) => enterEpoch(tx, stream, server)))
  const epochs = await sql<Epoch[]>`select stream, first_id, last_id from cursor_epochs`
  const digest = createHash('sha256').update(lineages.join(' ')).digest('hex')
  return { lineage: digest.slice(0, 16), epochs: [...epochs] }
}

/** The cluster, the database and the timeline, which a promotion changes; without it where a host withholds the log. */
async function readServer(sql: Sql): Promise<string> {
  const [cluster] = await sql<{ id: string }[]>`
    select system_identifier || ' ' || oid as id from pg_control_system(), pg_database
     where datname = current_database()`
  const [log] = await sql<{ timeline: string }[]>`
    select left(pg_walfile_name(pg_current_wal_lsn()), 8) as timeline`.catch((error: unknown) => {
    if (error instanceof Error && 'severity' in error) return []
    throw error
  })
  return `${cluster?.id ?? ''} ${log?.timeline ?? ''}`
}

/** Begins an epoch if the server is another one. Returns the lineage. */
async function enterEpoch(
  tx: DatabaseTransaction,
  stream: CursorStream,
  server: string,
): Promise<string> {
  await tx`select pg_advisory_xact_lock(hashtext('cursor_epochs'))`
  const [here] = await tx<{ lineage: string; isOther: boolean; isForked: boolean }[]>`
    with here as (
      select ${server}::text || ' ' || ${stream}::text::regclass::oid as lineage,
             pg_postmaster_start_time() as started)
    select h.lineage, c.lineage is distinct from h.lineage or c.server_started <> h.started as "isOther",
           c.lineage <> h.lineage as "isForked"
      from here h left join cursor_epochs c on c.stream = ${stream} and c.last_id is null`
  if (here === undefined) throw new Error('PostgreSQL names no cluster')
  if (!here.isOther) return here.lineage
  // No id of before appears later: readers begin at the first id of an epoch.
  await tx`lock table ${tx(stream)} in share row exclusive mode`
  if (!here.isForked) await endEpoch(tx, stream)
  const [next] = await tx<{ id: bigint }[]>`
    select setval(s, greatest(nextval(s), (select max(first_id) from cursor_epochs where stream = ${stream}))
             + (random() * ${MAX_SKIPPED_IDS})::bigint) as id
      from cast(pg_get_serial_sequence(${stream}, 'id') as regclass) s`
  if (here.isForked) await tx`delete from cursor_epochs where stream = ${stream}`
  await tx`
    insert into cursor_epochs (stream, first_id, lineage, server_started)
    values (${stream}, ${next?.id ?? 0n}, ${here.lineage}, pg_postmaster_start_time())`
  return here.lineage
}

/**
 * Ends the current epoch; ids of a database without epochs were cursors from 0 on. After a crash a sequence is ahead
 * of what it has given out, and another history may have given that out.
 */
const endEpoch = (tx: DatabaseTransaction, stream: CursorStream) => tx`
  with drawn as (
    select greatest((select coalesce(max(id), 0) from ${tx(stream)}),
                    case when log_cnt = 0 then last_value - ${SEQUENCE_LOG_AHEAD} else last_value end) as last_id
      from ${tx(`${stream}_id_seq`)}),
  ended as (
    update cursor_epochs c set last_id = greatest(d.last_id, c.first_id) from drawn d
     where c.stream = ${stream} and c.last_id is null returning 1)
  insert into cursor_epochs (stream, first_id, last_id, lineage, server_started)
  select ${stream}, 0, greatest(last_id, 0), '', pg_postmaster_start_time() from drawn
   where not exists (select from ended)`
