import type { CatalogueRevision } from '../../../domain/tool-catalogue-diff.ts'

/** Version and news of this station. */
export interface StationReleasesAndCatalogueRevisions {
  readonly version: string
  /** Public base URL without a trailing slash. */
  readonly publicUrl: string
  /** Releases in the changelog, newest first. */
  readonly releases: readonly ChangelogRelease[]
  /** Returns the latest revision of the catalogue, with its changes. */
  latestRevision(): Promise<CatalogueRevision>
  /** Returns the revisions after a revision or an instant (milliseconds), newest first. */
  revisionsAfter(
    since: { readonly revision: number } | { readonly at: number },
  ): Promise<CatalogueRevision[]>
}

export interface ChangelogRelease {
  readonly version: string
  /** A date; null for an unreleased version. */
  readonly releasedOn: string | null
  readonly notes: readonly { readonly about: string; readonly text: string }[]
}
