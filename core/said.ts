/**
 * The pattern of a text field that has to say something: white space alone is refused, before anything
 * is charged. Blank ends and blanks inside are fine.
 */
export const SAID = '\\S'

/** What is told of a text that does not fit a pattern; null where the pattern is another. */
export const unsaid = (pattern: unknown): string | null =>
  pattern === SAID ? 'must not be blank' : null
