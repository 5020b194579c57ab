import { ServiceError } from '../../core/errors.ts'
import { BACKPACK_NON_TOOL_PERMISSIONS } from '../../domain/backpack-spending-permissions.ts'
import {
  findLookAlikeToolName,
  lookAlikeToolNameError,
} from '../../domain/tool-name-look-alikes.ts'

/** Names of community tools: no native tool, no other tool and no address of the API may be mistaken for one. */

/** Words with another meaning where names of tools are used. */
const RESERVED_WORDS: readonly string[] = [
  ...BACKPACK_NON_TOOL_PERMISSIONS,
  ...['pipeline', 'batch', 'register', 'import', 'invoke', 'submit', 'stream', 'quote', 'refuel'],
  // A member of every object.
  'constructor',
]
/** The prefix of the station's own names over MCP. */
const RESERVED_PREFIX = 'gas-'

/** Throws `slug_taken`, with the name that the slug may be mistaken for. */
export function assertCommunityToolSlugFree(
  slug: string,
  native: readonly string[],
  community: readonly string[],
): void {
  const twin = findLookAlikeToolName(slug, [...native, ...RESERVED_WORDS, ...community])
  if (twin !== undefined) throw lookAlikeToolNameError(slug, twin)
  if (slug.startsWith(RESERVED_PREFIX))
    throw new ServiceError('slug_taken', {
      slug,
      did_you_mean: slug.slice(RESERVED_PREFIX.length),
      detail: `Names that begin with ${RESERVED_PREFIX} belong to the station.`,
    })
}
