import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { fileByFile, optionsFor, sources } from '../../scripts/build-sources.ts'
import { ROOT } from '../../scripts/root.ts'
import type { Edit, Plant } from './plant.ts'

/** A source with its bugs; an error where one has no single place any more. */
export function mutated(edits: readonly Edit[]): Map<string, string> {
  const texts = new Map<string, string>()
  for (const { file, from, to } of edits) {
    const text = texts.get(file) ?? readFileSync(join(ROOT, file), 'utf8')
    const places = text.split(from).length - 1
    if (places !== 1) throw new Error(`${file} has ${places} places for: ${from}`)
    texts.set(
      file,
      text.replace(from, () => to),
    )
  }
  return texts
}

const HOME = join(ROOT, '.cache/adversary')
const SERVICE = /^(?!test\/|bench\/|scripts\/|examples\/)/

/** Builds the service once, for itself and for all copies with a bug; returns its folder. */
export async function buildService(parent = HOME): Promise<string> {
  const home = join(parent, 'sound')
  rmSync(parent, { recursive: true, force: true })
  const entryPoints = sources('.').filter((path) => SERVICE.test(path))
  await build({ ...optionsFor(home), entryPoints, plugins: [fileByFile] })
  return home
}

/** A copy of what `buildService` has built, with the bugs of a plant. */
export async function buildPlanted(name: string, { edits }: Plant): Promise<string> {
  const home = join(HOME, name)
  mkdirSync(home, { recursive: true })
  cpSync(join(HOME, 'sound'), home, { recursive: true })
  await buildEdits(home, edits)
  return home
}

/** Builds the edited sources over what stands in a folder; an edited migration is written there. */
export async function buildEdits(home: string, edits: readonly Edit[]): Promise<void> {
  const texts = mutated(edits)
  const entryPoints = [...texts.keys()].filter((path) => path.endsWith('.ts'))
  for (const [path, text] of texts) {
    if (!entryPoints.includes(path)) writeFileSync(join(home, path), text)
  }
  const plugin = {
    name: 'planted bugs',
    setup({ onLoad }: Parameters<typeof fileByFile.setup>[0]) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const text = texts.get(path.slice(ROOT.length + 1))
        return text === undefined ? null : { contents: text, loader: 'ts' as const }
      })
    },
  }
  await build({ ...optionsFor(home), entryPoints, plugins: [fileByFile, plugin] })
}
