import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { REPOSITORY_ROOT } from '../repository-root.ts'

/** Writes generated documents and sections, or checks them with `--check`. */

const locate = (path: string) => join(REPOSITORY_ROOT, path)

/**
 * Writes a generated document; with `--check` it fails when the file differs and writes nothing.
 */
export function writeGeneratedFile(path: string, content: string): void {
  const file = locate(path)
  if (readIfExists(file) === content) return
  if (process.argv.includes('--check')) {
    console.error(
      `${path} is out of date: run npm run ${process.env['npm_lifecycle_event'] ?? 'docs'}`,
    )
    process.exitCode = 1
    return
  }
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, content)
  console.log(`${path} written`)
}

/** The same for the section between two markers of a hand-written document. */
export function writeGeneratedSection(path: string, name: string, content: string): void {
  const [begin, end] = [`<!-- ${name}:begin -->`, `<!-- ${name}:end -->`]
  const text = readIfExists(locate(path)) ?? ''
  const [from, to] = [text.indexOf(begin), text.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${path} has no markers ${begin} and ${end}`)
  writeGeneratedFile(path, `${text.slice(0, from + begin.length)}\n${content}\n${text.slice(to)}`)
}

function readIfExists(file: string): string | null {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

/** Renders a Markdown table; escapes `|` inside cells. */
export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${'---|'.repeat(head.length)}`, ...rows.map(line)].join('\n')
}
