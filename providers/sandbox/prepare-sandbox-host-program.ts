import { createHash, randomUUID } from 'node:crypto'
import { existsSync, realpathSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The program of a host, and the files it may read. */
export interface SandboxHostProgram {
  readonly main: string
  /** Folders and files by their paths here; a host sees nothing else of this machine. */
  readonly readable: readonly string[]
}

const BUILT = !import.meta.url.endsWith('.ts')
const HOST_ENTRY_FILE = fileURLToPath(
  BUILT
    ? new URL('./host/sandbox-host-child-process-entry.js', import.meta.url)
    : new URL('./host/sandbox-host-child-process-entry.ts', import.meta.url),
)
const HOST_ENTRY_NAME = basename(HOST_ENTRY_FILE).replace(/ts$/, 'js')

/** Returns the built host beside this file; from source it is transpiled once per version. */
export async function prepareSandboxHostProgram(): Promise<SandboxHostProgram> {
  const packages = findNodeModules()
  // Marks the files as ES modules.
  const scope = join(dirname(packages), 'package.json')
  const main = BUILT
    ? HOST_ENTRY_FILE
    : await transpileHostProgram(join(dirname(packages), '.cache/sandbox'))
  // A host resolves files by a linked path and reads them by the real one.
  const paths = [dirname(main), packages, scope].flatMap(withRealPath)
  return { main, readable: [...new Set(paths)] }
}

const withRealPath = (path: string): string[] =>
  existsSync(path) ? [path, realpathSync(path)] : [path]

/** Returns `node_modules` as Node resolves it from here. */
function findNodeModules(): string {
  const name = 'just-bash'
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? []
  const found = folders.find((folder) => existsSync(join(folder, name)))
  if (found === undefined) throw new Error(`the package ${name} is not installed`)
  return found
}

/**
 * Transpiles the host program into a folder named by its content, since a host may neither compile nor start
 * a compiler.
 */
async function transpileHostProgram(cache: string): Promise<string> {
  const folder = dirname(HOST_ENTRY_FILE)
  const names = (await readdir(folder)).filter((name) => name.endsWith('.ts')).sort()
  const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
  const version = createHash('sha256').update(texts.join('\0')).digest('hex').slice(0, 16)
  const target = join(cache, version)
  const done = await readdir(target).catch(() => [])
  if (done.length === names.length) return join(target, HOST_ENTRY_NAME)
  const { default: typescript } = await import('typescript')
  const { ModuleKind, ScriptTarget } = typescript
  const compilerOptions = {
    module: ModuleKind.ESNext,
    target: ScriptTarget.ES2022,
    rewriteRelativeImportExtensions: true,
  }
  // Concurrent builds write the same content; the rename makes the folder appear atomically.
  const own = `${target}.${randomUUID()}`
  await mkdir(own, { recursive: true })
  for (const [index, name] of names.entries()) {
    const { outputText } = typescript.transpileModule(texts[index] ?? '', { compilerOptions })
    await writeFile(join(own, name.replace(/ts$/, 'js')), outputText)
  }
  await rename(own, target).catch(() => rm(own, { recursive: true }))
  return join(target, HOST_ENTRY_NAME)
}
