import { createHash } from 'node:crypto'
import {
  diffCatalogues,
  type CatalogueRevision,
  type ComparedCatalogueToolProperties,
} from '../../domain/tool-catalogue-diff.ts'
import { HOUR, type Clock } from '../../core/clock.ts'
import { createCatalogueRevisionStore } from '../../persistence/catalogue-revision-store.ts'
import type { Sql } from '../../persistence/start-postgres-and-redis.ts'
import { withDatabaseAnswerTimeout } from '../../persistence/query-timeout.ts'
import { parseChangelog } from '../../tools/intelligence/station-updates/parse-changelog.ts'
import type { CatalogueEntry, ToolCatalogueReader, ToolPorts } from '../../tools/tool-ports.ts'
import { CHANGELOG } from '../read-changelog-file.ts'
import { VERSION } from '../version.ts'

/** Version, changelog and catalogue history of the station. */

/** During a deployment, stations of two versions may alternate for this time. */
const REVISION_QUIET_MS = HOUR

export interface ComposeReleaseNotesDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly publicUrl: string
}

/** Creates the release notes. `record` stores catalogue changes. */
export function composeReleaseNotesService({ sql, clock, publicUrl }: ComposeReleaseNotesDeps) {
  const store = createCatalogueRevisionStore(sql)
  // Revisions never change, so only newer ones are read.
  let known: readonly CatalogueRevision[] = []
  async function all(): Promise<readonly CatalogueRevision[]> {
    const fresh = await withDatabaseAnswerTimeout(
      store.after({ revision: known[0]?.revision ?? 0 }),
    )
    const from = known[0]?.revision ?? 0
    const unknown = fresh.filter(({ revision }) => revision > from)
    if (unknown.length > 0) known = [...unknown, ...known]
    return known
  }
  const none = () => ({ revision: 0, at: clock.now(), version: VERSION, changes: [] })
  const news: ToolPorts['news'] = {
    version: VERSION,
    publicUrl,
    releases: parseChangelog(CHANGELOG),
    latestRevision: async () => (await withDatabaseAnswerTimeout(store.latest())) ?? none(),
    revisionsAfter: async (since) =>
      (await all()).filter(({ revision, at }) =>
        'revision' in since ? revision > since.revision : at > since.at,
      ),
  }
  return {
    news,
    /**
     * Stores the catalogue if it has changed. A catalogue that was current within the last hour is
     * not stored again, because old and new stations alternate during a deployment.
     */
    async record(catalogue: ToolCatalogueReader): Promise<void> {
      const tools = catalogue.entries().map(toCatalogueOffer)
      for (let written = false; !written;) {
        const lately = await store.currentSince(clock.now() - REVISION_QUIET_MS)
        if (lately.some((one) => diffCatalogues(one.tools, tools).length === 0)) return
        const [last] = lately
        const changes = diffCatalogues(last?.tools ?? [], tools)
        const revision = (last?.revision ?? 0) + 1
        // A concurrently started node may be first: check again.
        const next = { revision, at: clock.now(), version: VERSION, changes }
        written = await store.append(next, tools)
      }
    },
  }
}

const toCatalogueOffer = (entry: CatalogueEntry): ComparedCatalogueToolProperties => ({
  slug: entry.slug,
  name: entry.name,
  category: entry.category,
  access: entry.access,
  price_usdc: entry.price_usdc,
  free_tier: JSON.stringify(entry.free_tier?.overage_price_usdc ?? null),
  description: entry.description,
  input: fingerprint(entry.input_schema),
  output: fingerprint(entry.output_schema),
})

const fingerprint = (schema: unknown): string =>
  createHash('sha256').update(JSON.stringify(schema)).digest('base64url').slice(0, 16)
