import type {
  CatalogueRevision,
  CatalogueToolChange,
  ComparedCatalogueToolProperties,
} from '../domain/tool-catalogue-diff.ts'
import type { Sql } from './start-postgres-and-redis.ts'

/** Stores the revisions of this station's tool catalogue. */
export function createCatalogueRevisionStore(sql: Sql) {
  return {
    /** The newest; null before the first. */
    async latest(): Promise<CatalogueRevision | null> {
      const [row] = await sql<RevisionRow[]>`
        select revision, at, version, changes from catalogue_revisions
         order by revision desc limit 1`
      return row === undefined ? null : fromRow(row)
    },

    /** Revisions that were current at that instant or later, with their tools, newest first. */
    async currentSince(at: number): Promise<CatalogueRevisionWithTools[]> {
      const rows = await sql<(RevisionRow & { tools: ComparedCatalogueToolProperties[] })[]>`
        select revision, at, version, changes, tools from catalogue_revisions
         where revision >= coalesce((
           select max(revision) from catalogue_revisions where at <= ${new Date(at)}), 0)
         order by revision desc`
      return rows.map(({ tools, ...row }) => ({ ...fromRow(row), tools }))
    },

    /** False if another node has already written this revision. */
    async append(
      next: CatalogueRevision,
      tools: readonly ComparedCatalogueToolProperties[],
    ): Promise<boolean> {
      const { count } = await sql`
        insert into catalogue_revisions (revision, at, version, tools, changes)
        values (${next.revision}, ${new Date(next.at)}, ${next.version},
                ${JSON.stringify(tools)}::text::jsonb, ${JSON.stringify(next.changes)}::text::jsonb)
        on conflict do nothing`
      return count === 1
    },

    /** Later revisions, newest first. */
    async after(since: { readonly revision: number }): Promise<CatalogueRevision[]> {
      const rows = await sql<RevisionRow[]>`
        select revision, at, version, changes from catalogue_revisions
         where revision > ${since.revision} order by revision desc`
      return rows.map(fromRow)
    },
  }
}

interface CatalogueRevisionWithTools extends CatalogueRevision {
  readonly tools: readonly ComparedCatalogueToolProperties[]
}

interface RevisionRow {
  revision: number
  at: Date
  version: string
  changes: CatalogueToolChange[]
}

const fromRow = ({ at, ...row }: RevisionRow): CatalogueRevision => ({ ...row, at: at.getTime() })
