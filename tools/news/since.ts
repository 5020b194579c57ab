import Type from 'typebox'
import { invalid } from '../../core/errors.ts'
import { SAID } from '../../core/said.ts'
import type { CatalogueRevision, News } from './port.ts'

/** The version of the service that somebody knows. */
export const KnownVersion = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: SAID,
  description: 'The version you know.',
})

/** From when on somebody wants to hear what is new. */
export const SinceFields = {
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

export interface SinceInput {
  readonly since_revision?: number
  readonly since?: string
}

/** The instant meant by `since`; null without one. A day begins at UTC midnight. */
export function instantOf({ since }: SinceInput): number | null {
  if (since === undefined) return null
  const at = Date.parse(since)
  if (Number.isNaN(at)) throw invalid('/since', 'is no day or instant of the calendar')
  return at
}

/** What both fields at once would mean nobody knows; an instant must be one. */
export function demandSince(input: SinceInput): void {
  if (input.since !== undefined && input.since_revision !== undefined)
    throw invalid('/since', 'stands beside since_revision: give one of them')
  instantOf(input)
}

/** The revisions that are new to the caller, the newest first; all where nothing is said. */
export async function newRevisions(
  news: News,
  latest: CatalogueRevision,
  input: SinceInput,
): Promise<readonly CatalogueRevision[]> {
  const { since_revision: revision } = input
  if (revision !== undefined && revision > latest.revision)
    throw invalid(
      '/since_revision',
      `is ahead of this station, whose catalogue is at ${latest.revision}`,
    )
  const at = instantOf(input)
  return news.after(at === null ? { revision: revision ?? 0 } : { at })
}

/** What the changelog says of releases that are new since that instant; the newest alone without one. */
export function announcements({ releases }: News, since: number | null) {
  const fresh = releases.filter(
    ({ releasedOn }, at) =>
      (releasedOn === null && at === 0) ||
      (since === null ? at === 0 : releasedOn !== null && Date.parse(releasedOn) >= since),
  )
  return fresh.flatMap(({ version, releasedOn, notes }) =>
    notes.map(({ about, text }) => ({ version, released_on: releasedOn, about, text })),
  )
}

export const Announcement = Type.Object({
  version: Type.String(),
  released_on: Type.Union([Type.String(), Type.Null()]),
  about: Type.String(),
  text: Type.String(),
})

export const instant = (at: number): string => new Date(at).toISOString()
