import Type from 'typebox'
import { invalidInputError } from '../../../core/errors.ts'
import { NOT_BLANK_PATTERN } from '../../../core/validation/request-schema-regex-patterns.ts'
import type { StationReleasesAndCatalogueRevisions } from './station-updates-port.ts'
import type { CatalogueRevision } from '../../../domain/tool-catalogue-diff.ts'

/** The version of the service that the caller knows. */
export const KnownVersionField = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: NOT_BLANK_PATTERN,
  description: 'The version you know.',
})

/** Fields that select what is new. */
export const UpdatesSinceFields = {
  since_revision: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 2_147_483_647,
      description: 'The catalogue revision you know.',
    }),
  ),
  since: Type.Optional(
    Type.String({
      pattern:
        '^\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}(:\\d{2}(\\.\\d{1,9})?)?(Z|[+-]\\d{2}:\\d{2}))?$',
      description: 'A day, or an instant with its zone (ISO 8601).',
    }),
  ),
}

export interface UpdatesSinceInput {
  readonly since_revision?: number
  readonly since?: string
}

/** Returns the instant of `since` in milliseconds, or null. A date starts at UTC midnight. */
export function parseSinceInstant({ since }: UpdatesSinceInput): number | null {
  if (since === undefined) return null
  const at = Date.parse(since)
  if (Number.isNaN(at)) throw invalidInputError('/since', 'must be a valid date or instant')
  return at
}

/** Throws when both fields are set, which is ambiguous, and for a malformed instant. */
export function assertSinceOrRevisionNotBoth(input: UpdatesSinceInput): void {
  if (input.since !== undefined && input.since_revision !== undefined)
    throw invalidInputError('/since', 'cannot be combined with since_revision')
  parseSinceInstant(input)
}

/** Returns the revisions new to the caller, newest first; all without a field. */
export async function listNewCatalogueRevisions(
  news: StationReleasesAndCatalogueRevisions,
  latest: CatalogueRevision,
  input: UpdatesSinceInput,
): Promise<readonly CatalogueRevision[]> {
  const { since_revision: revision } = input
  if (revision !== undefined && revision > latest.revision)
    throw invalidInputError(
      '/since_revision',
      `is ahead of this station, whose catalogue is at ${latest.revision}`,
    )
  const at = parseSinceInstant(input)
  return news.revisionsAfter(at === null ? { revision: revision ?? 0 } : { at })
}

/** Returns the changelog of releases after an instant; without one, of the newest release. */
export function listReleaseNotesSince(
  { releases }: StationReleasesAndCatalogueRevisions,
  since: number | null,
) {
  const fresh = releases.filter(
    ({ releasedOn }, at) =>
      (releasedOn === null && at === 0) ||
      (since === null ? at === 0 : releasedOn !== null && Date.parse(releasedOn) >= since),
  )
  return fresh.flatMap(({ version, releasedOn, notes }) =>
    notes.map(({ about, text }) => ({ version, released_on: releasedOn, about, text })),
  )
}

export const ReleaseNoteSchema = Type.Object({
  version: Type.String(),
  released_on: Type.Union([Type.String(), Type.Null()]),
  about: Type.String(),
  text: Type.String(),
})

export const toIsoTimestampFromMs = (at: number): string => new Date(at).toISOString()
