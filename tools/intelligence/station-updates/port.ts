import type { CatalogueRevision } from '../../../domain/catalogue-diff.ts'

/** What this station is, and what is new about it. */
export interface StationUpdates {
  readonly version: string
  /** Where it is reached, without a slash at its end. */
  readonly publicUrl: string
  /** From its changelog, the newest first. */
  readonly releases: readonly ChangelogRelease[]
  /** The catalogue it has now; its changes are those that made it. */
  latestRevision(): Promise<CatalogueRevision>
  /** Later revisions than that one, or than that instant (milliseconds); the newest first. */
  revisionsAfter(
    since: { readonly revision: number } | { readonly at: number },
  ): Promise<CatalogueRevision[]>
}

export interface ChangelogRelease {
  readonly version: string
  /** A day, or null for one that is not released yet. */
  readonly releasedOn: string | null
  readonly notes: readonly { readonly about: string; readonly text: string }[]
}
