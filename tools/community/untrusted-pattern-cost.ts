import { RE2JS } from 're2js'
import { invalidInputError } from '../../core/errors.ts'
import { escapeJsonPointer } from '../../core/validation/validation-errors.ts'

/**
 * What a pattern of a stranger costs: RE2 follows every instruction of its program at every character, so 20 bytes
 * of pattern may be 2,000 times as dear as a plain one (decision 382).
 */

const MAX_PATTERN_INSTRUCTIONS = 512
/** Characters times instructions of all matches of one validation: a fraction of a second. */
export const MAX_PATTERN_STEPS = 2_000_000
const MAX_PATTERN_CHARS = 1_000
/** Of each character, whatever the program. */
const BASE_INSTRUCTIONS = 16

export const patternSteps = (instructions: number, characters: number): number =>
  (instructions + BASE_INSTRUCTIONS) * (characters + 1)

/** Why a new pattern is too dear for texts of its field; null if it is not. Throws for what RE2 does not know. */
export function findPatternExcess(pattern: string, maxLength: unknown): string | null {
  if (pattern.length > MAX_PATTERN_CHARS) return `must have at most ${MAX_PATTERN_CHARS} characters`
  const instructions = RE2JS.compile(pattern).programSize()
  if (instructions > MAX_PATTERN_INSTRUCTIONS)
    return `is a program of ${instructions} instructions; at most ${MAX_PATTERN_INSTRUCTIONS}`
  const most = Math.floor(MAX_PATTERN_STEPS / (instructions + BASE_INSTRUCTIONS)) - 1
  if (typeof maxLength !== 'number' || maxLength <= most) return null
  return `needs a maxLength of at most ${most}, which its matching can afford`
}

/** Throws `invalid_input` with a pointer for a pattern of a schema that is too dear. */
export function assertPatternsAffordable(schema: unknown, pointer: string): void {
  if (typeof schema !== 'object' || schema === null) return
  const { pattern, maxLength, patternProperties } = schema as Record<string, unknown>
  if (typeof pattern === 'string') assertAffordable(pattern, maxLength, `${pointer}/pattern`)
  if (typeof patternProperties === 'object' && patternProperties !== null)
    for (const name of Object.keys(patternProperties))
      assertAffordable(name, undefined, `${pointer}/patternProperties/${escapeJsonPointer(name)}`)
  for (const [name, inner] of Object.entries(schema))
    if (!VALUES.has(name)) assertPatternsAffordable(inner, `${pointer}/${escapeJsonPointer(name)}`)
}

/** Their values are no schemas. */
const VALUES: ReadonlySet<string> = new Set(['enum', 'const', 'default', 'examples', 'example'])

function assertAffordable(pattern: string, maxLength: unknown, pointer: string): void {
  const excess = excessOrNull(pattern, maxLength)
  if (excess !== null) throw invalidInputError(pointer, excess)
}

/** The compiler of the schema names a pattern that RE2 does not know. */
function excessOrNull(pattern: string, maxLength: unknown): string | null {
  try {
    return findPatternExcess(pattern, maxLength)
  } catch {
    return null
  }
}
