/** Reads the TAP output (https://testanything.org/tap-version-14-specification.html) of a test process. */

/** Written by `tap-for-many-files-in-one-process.ts` when its process ends: the assertions of all files. */
export const TAP_ASSERTION_COUNTS_PREFIX = '# assertions '

const MAX_DIAGNOSTIC_LINES = 40
const FAILED_POINT = /^(\s*)not ok \d+/
/** tap gives the time of a test, not of an assertion. */
const TEST_WITH_ASSERTIONS = / # time=[\d.]+m?s$/

/** How many assertions passed and failed, or null of a process that ended without having counted. */
export function readTapAssertionCounts(output: string): { passed: number; failed: number } | null {
  const line = output.split('\n').findLast((text) => text.startsWith(TAP_ASSERTION_COUNTS_PREFIX))
  if (line === undefined) return null
  const [passed = 0, failed = 0] = line
    .slice(TAP_ASSERTION_COUNTS_PREFIX.length)
    .split(' ')
    .map(Number)
  return { passed, failed }
}

/** The failed assertions with their diagnostics, then the name of their test, as they stand in the output. */
export function failedTapPoints(output: string): string[] {
  const lines = output.split('\n')
  return lines.flatMap((line, index) => {
    const indent = FAILED_POINT.exec(line)?.[1]
    if (indent === undefined) return []
    if (TEST_WITH_ASSERTIONS.test(line)) return [line]
    const end = lines.findIndex((text, at) => at > index && text === `${indent}  ...`)
    const hasDiagnostic = lines[index + 1] === `${indent}  ---` && end > 0
    const last = hasDiagnostic ? Math.min(end, index + MAX_DIAGNOSTIC_LINES) : index
    return [lines.slice(index, last + 1).join('\n')]
  })
}
