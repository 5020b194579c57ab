import type { EncryptionPurpose } from '../core/key-derivation-and-encryption.ts'
import { toTextArrayLiteral } from './postgres/postgres-array-literal.ts'
import type { Sql } from './start-postgres-and-redis.ts'

/** A stored envelope. */
export interface StoredEncryptedEnvelope {
  /** Its primary key, which also orders the rows. */
  readonly row: readonly string[]
  readonly sealed: Buffer
  /** The additional authenticated data it is bound to. */
  readonly aad: readonly string[]
}

export interface EncryptedEnvelopeReplacement {
  readonly row: readonly string[]
  readonly before: Buffer
  readonly after: Buffer
}

/** One kind of secrets: one column of one table. */
export interface SealedColumn {
  readonly name: string
  readonly purpose: EncryptionPurpose
  /** The next envelopes after `after`, in order; null starts at the first. */
  page(after: readonly string[] | null, limit: number): Promise<StoredEncryptedEnvelope[]>
  /** Replaces envelopes that still exist. */
  replace(changes: readonly EncryptedEnvelopeReplacement[], keyId: string): Promise<void>
}

/**
 * Every encrypted column of this database. A new one needs a line here, and a guard in its
 * migration.
 */
export const listSealedColumns = (sql: Sql): readonly SealedColumn[] => [
  createSealedColumn(sql, 'station', 'station_keys', {
    key: { purpose: 'text' },
    aad: ['k.purpose'],
  }),
  createSealedColumn(sql, 'station', 'attestation_keys', {
    key: { number: 'int' },
    aad: [`'attestation'`, 'k.number'],
  }),
  createSealedColumn(sql, 'wallet', 'wallets', { ...walletColumnSpec('agent_id'), named: true }),
  createSealedColumn(sql, 'wallet', 'fleet_wallets', {
    ...walletColumnSpec('fleet_id'),
    named: true,
  }),
  createSealedColumn(sql, 'keyring', 'keyring', {
    key: { backpack_id: 'text', name: 'text' },
    aad: [BACKPACK_OWNER_SQL, 'k.backpack_id', 'k.name'],
  }),
  createSealedColumn(sql, 'keyring', 'schedule_params', {
    key: { schedule_id: 'uuid' },
    aad: [`'schedule'`, 'k.agent_id'],
  }),
  createSealedColumn(sql, 'keyring', 'tool_credentials', {
    key: { builder_id: 'uuid', origin: 'text' },
    aad: ['k.builder_id', 'k.origin', 'k.header'],
  }),
  createSealedColumn(sql, 'webhook', 'webhooks', WEBHOOK_COLUMN_SPEC),
  createSealedColumn(sql, 'webhook', 'webhooks', {
    ...WEBHOOK_COLUMN_SPEC,
    sealed: 'sealed_before',
  }),
  createSealedColumn(sql, 'answers', 'idempotency_drafts', {
    key: { owner: 'text', idempotency_key: 'text' },
    aad: [`'draft'`, 'k.owner', 'k.idempotency_key'],
  }),
  createSealedRepliesColumn(sql),
]

interface SealedColumnSpec {
  /** The primary key: its columns and their types. */
  readonly key: Readonly<Record<string, string>>
  /** What the envelope is bound to: SQL over `k`. */
  readonly aad: readonly string[]
  readonly sealed?: string
  /** The table also has a column `key_id`. */
  readonly named?: true
}

const walletColumnSpec = (owner: string): SealedColumnSpec => ({
  key: { [owner]: 'uuid', address: 'text' },
  aad: [`k.${owner}`, 'k.address'],
})
const WEBHOOK_COLUMN_SPEC: SealedColumnSpec = { key: { id: 'text' }, aad: ['k.agent_id', 'k.id'] }
const BACKPACK_OWNER_SQL = `(select a.aggregate_id from actors a where a.kind = 'backpack' and a.id = k.backpack_id)`

function createSealedColumn(
  sql: Sql,
  purpose: EncryptionPurpose,
  table: string,
  { key, aad, sealed = 'sealed', named }: SealedColumnSpec,
): SealedColumn {
  const names = Object.keys(key).map((name) => `k.${name}`)
  const given = Object.values(key).map((type, at) => `($2::text[])[${at + 1}]::${type}`)
  const texts = (parts: readonly string[]) =>
    `array[${parts.map((part) => `${part}::text`).join()}]`
  const page = (behind: string) => `
    select ${texts(names)} as row, ${texts(aad)} as aad, k.${sealed} as sealed from ${table} k
     where octet_length(k.${sealed}) > 0 ${behind} order by ${names.join()} limit $1`
  return {
    name: sealed === 'sealed' ? table : `${table}.${sealed}`,
    purpose,
    async page(after, limit) {
      const behind = `and (${names.join()}) > (${given.join()})`
      const rows =
        after === null
          ? await sql.unsafe<PageRow[]>(page(''), [limit])
          : await sql.unsafe<PageRow[]>(page(behind), [limit, toTextArrayLiteral([...after])])
      return rows.map((row) => ({ ...row, aad: row.aad.map((part) => part ?? '') }))
    },
    async replace(changes, keyId) {
      const id = named ? ', key_id = $2' : ''
      const types = Object.values(key).map((type, at) => `c."row"[${at + 1}]::${type}`)
      await sql.unsafe(
        `update ${table} k set ${sealed} = decode(c.after, 'hex')${id}
           from jsonb_to_recordset($1::text::jsonb) c("row" text[], before text, after text)
          where (${names.join()}) = (${types.join()}) and k.${sealed} = decode(c.before, 'hex')`,
        named ? [toJsonRecords(changes), keyId] : [toJsonRecords(changes)],
      )
    },
  }
}

interface PageRow {
  row: string[]
  sealed: Buffer
  aad: (string | null)[]
}

const toJsonRecords = (changes: readonly EncryptedEnvelopeReplacement[]): string =>
  JSON.stringify(
    changes.map(({ row, before, after }) => {
      return { row, before: before.toString('hex'), after: after.toString('hex') }
    }),
  )

/**
 * Replies that show a new API key: stored for a day in their call
 * (`persistence/idempotency/idempotent-writes.ts`).
 */
function createSealedRepliesColumn(sql: Sql): SealedColumn {
  return {
    name: 'answers',
    purpose: 'answers',
    async page(after, limit) {
      const [at = '-infinity', owner = '', callId = NIL_CALL_ID] = after ?? []
      const rows = await sql<AnswerRow[]>`
        select at::text as at, owner, call_id::text as call_id, operation, idempotency_key, response
          from calls where response is not null and response like '{"status":___,"body":null,"sealed":"%'
           and (at, owner, call_id) > (${at}::text::timestamptz, ${owner}, ${callId}::uuid)
         order by at, owner, call_id limit ${limit}`
      return rows.map((row) => ({
        row: [row.at, row.owner, row.call_id],
        sealed: Buffer.from((JSON.parse(row.response) as { sealed: string }).sealed, 'base64'),
        aad: [row.owner, row.operation, row.idempotency_key],
      }))
    },
    async replace(changes) {
      const texts = changes.map(({ row: [at, owner, callId], before, after }) => {
        return { at, owner, call_id: callId, ...toBase64Pair({ before, after }) }
      })
      await sql`
        update calls k set response = replace(k.response, c.before, c.after)
          from jsonb_to_recordset(${JSON.stringify(texts)}::text::jsonb)
               c(at timestamptz, owner text, call_id uuid, before text, after text)
         where (k.owner, k.call_id, k.at) = (c.owner, c.call_id, c.at)`
    },
  }
}

const NIL_CALL_ID = '00000000-0000-0000-0000-000000000000'
const toBase64Pair = ({
  before,
  after,
}: Pick<EncryptedEnvelopeReplacement, 'before' | 'after'>) => ({
  before: before.toString('base64'),
  after: after.toString('base64'),
})

interface AnswerRow {
  at: string
  owner: string
  call_id: string
  operation: string
  idempotency_key: string
  response: string
}

/**
 * Retires a master key: nothing is encrypted with it from here on. Nodes that write with it must
 * have ended before.
 */
export async function retireMasterKey(sql: Sql, keyId: string): Promise<void> {
  await sql.begin(async (tx) => {
    // Excludes the shared lock of assert_master_keys_active.
    await tx`select pg_advisory_xact_lock(84020009)`
    await tx`insert into master_keys (key_id, retired_at) values (${keyId}, now())
      on conflict (key_id) do update set retired_at = coalesce(master_keys.retired_at, now())`
  })
}

export async function isMasterKeyRetired(sql: Sql, keyId: string): Promise<boolean> {
  const [row] = await sql`
    select from master_keys where key_id = ${keyId} and retired_at is not null`
  return row !== undefined
}

/** Counts connections of running stations without this master key: each names the keys it holds. */
export async function countStationsWithoutMasterKey(sql: Sql, keyId: string): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*)::int as n from pg_stat_activity where datname = current_database()
       and application_name like 'gas-station key %' and application_name not like ${`% ${keyId}%`}`
  return row?.n ?? 0
}
