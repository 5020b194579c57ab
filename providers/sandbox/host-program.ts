import { createHash, randomUUID } from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Where the program of a host stands, and all it may read. */
export interface SandboxHostProgram {
  readonly main: string
  /** Folders and files, by their paths here: nothing else of this machine is shown to a host. */
  readonly readable: readonly string[]
}

const BUILT = !import.meta.url.endsWith('.ts')
const HOST_ENTRY_FILE = fileURLToPath(
  BUILT ? new URL('./host/main.js', import.meta.url) : new URL('./host/main.ts', import.meta.url),
)

/** The host as it was built beside this file; from source it is built first, once a version. */
export async function prepareSandboxHostProgram(): Promise<SandboxHostProgram> {
  const packages = findNodeModules()
  // It says that the files are modules.
  const scope = join(dirname(packages), 'package.json')
  const main = BUILT
    ? HOST_ENTRY_FILE
    : await transpileHostProgram(join(dirname(packages), '.cache/sandbox'))
  // Where a folder is a link, a host finds files by the one path and reads them by the other.
  const paths = [dirname(main), packages, scope].flatMap(withRealPath)
  return { main, readable: [...new Set(paths)] }
}

const withRealPath = (path: string): string[] =>
  existsSync(path) ? [path, realpathSync(path)] : [path]

/** The folder of the packages, as a program finds it that looks for them from here. */
function findNodeModules(): string {
  const name = 'just-bash'
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? []
  const found = folders.find((folder) => existsSync(join(folder, name)))
  if (found === undefined) throw new Error(`the package ${name} is not installed`)
  return found
}

/**
 * A host may neither compile nor start a compiler, so from source its files are translated here, into
 * a folder named by their content.
 */
async function transpileHostProgram(cache: string): Promise<string> {
  const folder = dirname(HOST_ENTRY_FILE)
  const names = (await readdir(folder)).filter((name) => name.endsWith('.ts')).sort()
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
  const version = createHash('sha256').update(texts.join('\0')).digest('hex').slice(0, 16)
  const target = join(cache, version)
  const done = await readdir(target).catch(() => [])
  if (done.length === names.length) return join(target, 'main.js')
  const { default: typescript } = await import('typescript')
  const { ModuleKind, ScriptTarget } = typescript
  const compilerOptions = {
    module: ModuleKind.ESNext,
    target: ScriptTarget.ES2022,
    rewriteRelativeImportExtensions: true,
  }
  // Whoever builds at the same time writes the same: the folder appears whole or not at all.
  const own = `${target}.${randomUUID()}`
  await mkdir(own, { recursive: true })
  for (const [index, name] of names.entries()) {
    const { outputText } = typescript.transpileModule(texts[index] ?? '', { compilerOptions })
    await writeFile(join(own, name.replace(/ts$/, 'js')), outputText)
  }
  await rename(own, target).catch(() => rm(own, { recursive: true }))
  return join(target, 'main.js')
}
