import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Sql } from '../../persistence/postgres/postgres-connection-pool.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'

/** Counts the rows and bytes of each table, and finds what `docs/retention.md` says of it. */

export interface TableSize {
  readonly rows: number
  /** With indexes and large values; of a partitioned table the sum of its partitions. */
  readonly bytes: number
}

export interface TableGrowth extends TableSize {
  readonly table: string
  readonly rowsBefore: number
  readonly bytesBefore: number
  /** The heading and line of the document that names the table; null if none does. */
  readonly retention: string | null
}

export async function readTableSizes(sql: Sql): Promise<Map<string, TableSize>> {
  const tables = await sql<{ name: string; bytes: number }[]>`
    select c.oid::regclass::text as name, coalesce(
        (select sum(pg_total_relation_size(i.inhrelid)) from pg_inherits i where i.inhparent = c.oid),
        pg_total_relation_size(c.oid))::float8 as bytes
      from pg_class c
     where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace
     order by 1`
  const sizes = new Map<string, TableSize>()
  for (const { name, bytes } of tables) {
    const [row] = await sql.unsafe<{ rows: number }[]>(
      `select count(*)::float8 as rows from ${name}`,
    )
    sizes.set(name, { rows: row?.rows ?? 0, bytes })
  }
  return sizes
}

/** The tables that have grown, the largest growth first. */
export function findTableGrowth(
  before: ReadonlyMap<string, TableSize>,
  after: ReadonlyMap<string, TableSize>,
): TableGrowth[] {
  const retention = readRetentionLines()
  return [...after]
    .map(([table, size]) => {
      const { rows: rowsBefore, bytes: bytesBefore } = before.get(table) ?? { rows: 0, bytes: 0 }
      return { table, ...size, rowsBefore, bytesBefore, retention: retention(table) }
    })
    .filter(({ rows, rowsBefore, bytes, bytesBefore }) => rows > rowsBefore || bytes > bytesBefore)
    .sort((a, b) => b.bytes - b.bytesBefore - (a.bytes - a.bytesBefore))
}

type FindRetention = (table: string) => string | null

/** Reads the tables of the document: names in backticks, with `*` for the rest of a name. */
function readRetentionLines(): FindRetention {
  const text = readFileSync(join(REPOSITORY_ROOT, 'docs/retention.md'), 'utf8')
  const named: { pattern: RegExp; line: string }[] = []
  let heading = ''
  for (const line of text.split('\n')) {
    if (line.startsWith('## ')) heading = line.slice(3)
    if (!line.startsWith('|')) continue
    for (const [, name = ''] of line.matchAll(/`([a-z0-9_*]+)`/g))
      named.push({
        pattern: new RegExp(`^${name.replaceAll('*', '[a-z0-9_]*')}$`),
        line: `${heading}: ${line.split('|')[1]?.trim() ?? ''}`,
      })
  }
  return (table) => named.find(({ pattern }) => pattern.test(table))?.line ?? null
}
