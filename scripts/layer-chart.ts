import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { keepPart } from './generated.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const SUFFIX = ' imports only its line'
const { forbidden } = createRequire(import.meta.url)('../.dependency-cruiser.cjs') as {
  forbidden: readonly { name: string }[]
}
const folders = forbidden.flatMap(({ name }) =>
  name.endsWith(SUFFIX) ? [name.slice(0, -SUFFIX.length)] : [],
)

/** Which folder imports which, as the sources stand now. */
function importsOf(folder: string): Set<string> {
  const files = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
  const found = new Set<string>()
  for (const file of files.filter((name) => name.endsWith('.ts'))) {
    const source = readFileSync(join(root, folder, file), 'utf8')
    for (const [, other = ''] of source.matchAll(/from '(?:\.\.\/)+([a-z]+)\//g)) {
      if (other !== folder && folders.includes(other)) found.add(other)
    }
  }
  return found
}

const present = folders.filter((folder) => existsSync(join(root, folder)))
const arrows = present.flatMap((folder) =>
  [...importsOf(folder)].sort().map((other) => `  ${folder} --> ${other}`),
)
const chart = ['```mermaid', 'graph TD', ...arrows, '```', '', '`app` composes all of them.'].join(
  '\n',
)
keepPart('ARCHITECTURE.md', 'layers', chart)
