import { cpSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { fileByFile, optionsFor, sources } from '../../scripts/build-sources.ts'
import { ROOT } from '../../scripts/root.ts'
import type { Profile } from './suite.ts'

/** A text of a source, that stands there once, and what takes its place. */
interface Edit {
  readonly file: string
  readonly from: string
  readonly to: string
}

/** A bug for a copy of the service, and the operations that find it within seconds. */
export interface Plant {
  readonly says: string
  readonly edits: readonly Edit[]
  /** The rules of the suite that may name it. */
  readonly rules: readonly string[]
  readonly profile: Profile
  readonly operations: number
  /** How many agents have deposited; where nobody has, all cash is too much. */
  readonly depositors?: number
}

/** Every bug that was found once, for a copy of the service as it is now. */
export const PLANTS: Readonly<Record<string, Plant>> = {
  guessable: {
    says: 'a stranger gets the API key of whoever sent the same guessable Idempotency-Key',
    edits: [
      {
        file: 'http/idempotency.ts',
        from: 'if (stranger) assertUnguessable(key)',
        to: '',
      },
    ],
    rules: ['secret-shown'],
    profile: { onboardTwice: 1 },
    operations: 60,
  },
}

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

/** Builds the service once, for itself and for all copies with a bug. */
export async function buildService(): Promise<string> {
  const home = join(HOME, 'sound')
  rmSync(HOME, { recursive: true, force: true })
  const entryPoints = sources('.').filter((path) => SERVICE.test(path))
  await build({ ...optionsFor(home), entryPoints, plugins: [fileByFile] })
  return home
}

/** A copy of what `buildService` has built, with the bugs of a plant. */
export async function buildPlanted(name: string, { edits }: Plant): Promise<string> {
  const home = join(HOME, name)
  mkdirSync(home, { recursive: true })
  cpSync(join(HOME, 'sound'), home, { recursive: true })
  const texts = mutated(edits)
  const plugin = {
    name: 'planted bugs',
    setup({ onLoad }: Parameters<typeof fileByFile.setup>[0]) {
      onLoad({ filter: /\.ts$/ }, ({ path }) => {
        const text = texts.get(path.slice(ROOT.length + 1))
        return text === undefined ? null : { contents: text, loader: 'ts' as const }
      })
    },
  }
  const entryPoints = [...texts.keys()]
  await build({ ...optionsFor(home), entryPoints, plugins: [fileByFile, plugin] })
  return home
}
