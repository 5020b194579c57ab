import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import {
  externalImportsPlugin,
  esbuildOptions,
  listTypeScriptSources,
} from '../../scripts/build/esbuild-options.ts'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import type { SourceEdit, ServiceMutant } from './service-mutant.ts'

/** Returns the edited sources by path. Throws unless each text occurs exactly once. */
export function applySourceEdits(edits: readonly SourceEdit[]): Map<string, string> {
  const texts = new Map<string, string>()
  for (const { file, from, to } of edits) {
    const text = texts.get(file) ?? readFileSync(join(REPOSITORY_ROOT, file), 'utf8')
    const places = text.split(from).length - 1
    if (places !== 1) throw new Error(`${file} has ${places} places for: ${from}`)
    texts.set(
      file,
      text.replace(from, () => to),
    )
  }
  return texts
}

const BUILD_DIR = join(REPOSITORY_ROOT, '.cache/adversary')
const SERVICE_SOURCE = /^(?!test\/|bench\/|scripts\/|examples\/)/

/**
 * Builds the service once, for the unmodified run and as the base of all mutants; returns its
 * folder.
 */
export async function buildUnmodifiedService(parent = BUILD_DIR): Promise<string> {
  const home = join(parent, 'sound')
  rmSync(parent, { recursive: true, force: true })
  const entryPoints = listTypeScriptSources('.').filter((path) => SERVICE_SOURCE.test(path))
  await build({ ...esbuildOptions(home), entryPoints, plugins: [externalImportsPlugin] })
  return home
}

/** Copies the build of `buildUnmodifiedService` and applies the edits of a mutation. */
export async function buildMutatedService(name: string, { edits }: ServiceMutant): Promise<string> {
  const home = join(BUILD_DIR, name)
  mkdirSync(home, { recursive: true })
  cpSync(join(BUILD_DIR, 'sound'), home, { recursive: true })
  await buildEditedSources(home, edits)
  return home
}

/** Builds the edited sources into a folder; copies edited migrations. */
export async function buildEditedSources(
  home: string,
  edits: readonly SourceEdit[],
): Promise<void> {
  const texts = applySourceEdits(edits)
  const entryPoints = [...texts.keys()].filter((path) => path.endsWith('.ts'))
  for (const [path, text] of texts) {
    if (!entryPoints.includes(path)) writeFileSync(join(home, path), text)
  }
  const plugin = {
    name: 'planted bugs',
    setup({ onLoad }: Parameters<typeof externalImportsPlugin.setup>[0]) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const text = texts.get(path.slice(REPOSITORY_ROOT.length + 1))
        return text === undefined ? null : { contents: text, loader: 'ts' as const }
      })
    },
  }
  await build({ ...esbuildOptions(home), entryPoints, plugins: [externalImportsPlugin, plugin] })
}
