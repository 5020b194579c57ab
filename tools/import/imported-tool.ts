import { withoutInvisibles } from '../../core/comparable-text.ts'
import { ServiceError } from '../../core/errors.ts'
import type { CommunityToolEndpoint } from '../../domain/community-tool-record.ts'
import { toToolNameSkeleton } from '../../domain/tool-name-look-alikes.ts'
import { cutText, type UntrustedJson } from './imported-schema-converter.ts'

/** A tool as an import describes it, before it has a slug of its own. */

export interface ImportedTool {
  /** How `include` names it: an operation id, or the name of an MCP tool. */
  readonly operation: string
  /** `GET /pets/{petId}` for REST. */
  readonly alias: string | null
  readonly name: string
  readonly description: string
  readonly inputSchema: UntrustedJson
  readonly outputSchema: UntrustedJson
  /** Characters of the document that it was made of. */
  readonly sourceChars: number
  readonly forward: CommunityToolEndpoint
}

const MAX_SLUG_CHARS = 48
const MAX_PREFIX_CHARS = 20

/** Letters, digits and dashes of a name: `listPets` becomes `list-pets`. */
const toKebab = (name: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')

export const toSlugPrefix = (title: string): string =>
  toKebab(title).slice(0, MAX_PREFIX_CHARS).replace(/-+$/, '') || 'imported'

/** Gives each tool a slug with the prefix; names that would be equal or look the same get a number. */
export function nameImportedTools<T extends Pick<ImportedTool, 'operation'>>(
  prefix: string,
  tools: readonly T[],
): { readonly slug: string; readonly tool: T }[] {
  const taken = new Set<string>()
  // By what names look like: smaller numbers are taken, so that equal names do not count from the beginning.
  const nextNumbers = new Map<string, number>()
  return tools.map((tool) => {
    const whole = `${prefix}-${toKebab(tool.operation) || 'tool'}`
    const base = whole.slice(0, MAX_SLUG_CHARS - 4).replace(/-+$/, '')
    const looks = toToolNameSkeleton(base)
    let slug = base
    let n = nextNumbers.get(looks) ?? 2
    for (; taken.has(toToolNameSkeleton(slug)); n += 1) slug = `${base}-${n}`
    nextNumbers.set(looks, n)
    taken.add(toToolNameSkeleton(slug))
    return { slug, tool }
  })
}

/** Returns the tools that `include` names; throws `import_refused` for a name without a tool. */
export function selectImportedTools<T extends Pick<ImportedTool, 'operation'>>(
  tools: readonly (T & Partial<Pick<ImportedTool, 'alias'>>)[],
  include: readonly string[],
): T[] {
  return include.map((wanted) => {
    const found = tools.find(({ operation, alias }) => operation === wanted || alias === wanted)
    if (found !== undefined) return found
    throw new ServiceError('import_refused', {
      operation: wanted,
      known: tools.slice(0, 50).map(({ operation }) => operation),
      detail: `There is no operation ${wanted}.`,
    })
  })
}

/** One line of text, as long as a field may be. What nobody sees goes without a blank, which would split a word. */
export function toPlainLine(text: unknown, fallback: string, maxChars: number): string {
  const line =
    typeof text === 'string'
      ? withoutInvisibles(text)
          .replace(/[\t\n\v\f\r\x85\p{Z}]+/gu, ' ')
          .replace(/\p{C}+/gu, '')
          .trim()
      : ''
  return cutText(line === '' ? fallback : line, maxChars)
}
