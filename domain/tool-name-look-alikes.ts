import { ServiceError } from '../core/errors.ts'

/** When two names of tools look the same: dashes, underscores and digits that look like letters make no difference. */

/** Equal for names that may be mistaken for each other; the database keeps it unique among tools of agents. */
export const toToolNameSkeleton = (name: string): string =>
  name.replace(/[-_]/g, '').replaceAll('0', 'o').replaceAll('1', 'l').replaceAll('5', 's')

/** The first of the names that looks like the slug. */
export function findLookAlikeToolName(slug: string, names: readonly string[]): string | undefined {
  const looks = toToolNameSkeleton(slug)
  return names.find((name) => toToolNameSkeleton(name) === looks)
}

export const lookAlikeToolNameError = (slug: string, twin: string): ServiceError =>
  new ServiceError('slug_taken', {
    slug,
    did_you_mean: twin,
    detail: `${twin} is taken, and ${slug} could be mistaken for it.`,
  })
