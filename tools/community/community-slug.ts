import { ServiceError } from '../../core/errors.ts'
import { BACKPACK_PERMISSIONS } from '../../domain/backpack-spending-permissions.ts'

/** Names of community tools: no native tool, no other tool and no address of the API may be mistaken for one. */

/** Words with another meaning where names of tools are used. */
const RESERVED_WORDS: readonly string[] = [
  ...BACKPACK_PERMISSIONS,
  ...['pipeline', 'batch', 'register', 'import', 'invoke', 'submit', 'stream', 'quote', 'refuel'],
  // A member of every object.
  'constructor',
]
/** The prefix of the station's own names over MCP. */
const RESERVED_PREFIX = 'gas-'

/** Names that differ in this only look the same. */
const looksOf = (name: string): string =>
  name.replace(/[-_]/g, '').replaceAll('0', 'o').replaceAll('1', 'l').replaceAll('5', 's')

/** Throws `slug_taken`, with the name that the slug may be mistaken for. */
export function assertSlugFree(
  slug: string,
  native: readonly string[],
  community: readonly string[],
): void {
  const looks = looksOf(slug)
  const twin = [...native, ...RESERVED_WORDS, ...community].find((name) => looksOf(name) === looks)
  if (twin !== undefined)
    throw new ServiceError('slug_taken', {
      slug,
      did_you_mean: twin,
      detail: `${twin} is taken, and ${slug} could be mistaken for it.`,
    })
  if (slug.startsWith(RESERVED_PREFIX))
    throw new ServiceError('slug_taken', {
      slug,
      did_you_mean: slug.slice(RESERVED_PREFIX.length),
      detail: `Names that begin with ${RESERVED_PREFIX} belong to the station.`,
    })
}
