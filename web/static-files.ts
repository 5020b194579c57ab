import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Files of the package that pages are made of, read with the first request and kept. */

export interface StaticFile {
  readonly type: string
  readonly body: Buffer
  readonly etag: string
}

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.webp': 'image/webp',
}

/** A short name of the content. */
export const shortContentHashOf = (content: string | Buffer): string =>
  createHash('sha256').update(content).digest('base64url').slice(0, 22)

/** Reads all files below a folder by their paths in it, so that no path of a request reaches the disk. */
export function readStaticFiles(folder: string | null): ReadonlyMap<string, StaticFile> {
  if (folder === null) return new Map()
  const paths = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && extname(entry.name) in TYPES)
    .map((entry) => join(entry.parentPath, entry.name))
  return new Map(
    paths.map((path) => {
      const name = path.slice(folder.length + 1).replaceAll('\\', '/')
      return [name, toStaticFile(name, readFileSync(path))]
    }),
  )
}

/** A file with the media type of its name. */
export const toStaticFile = (name: string, body: Buffer): StaticFile => ({
  type: TYPES[extname(name)] ?? '',
  body,
  etag: `"${shortContentHashOf(body)}"`,
})

/** Finds a file or folder of the package, from its sources and from a build; null when it is not there. */
export function findFileOrFolderInPackage(path: string): string | null {
  let from = dirname(fileURLToPath(import.meta.url))
  for (;;) {
    const found = join(from, path)
    if (existsSync(found)) return found
    if (from === dirname(from)) return null
    from = dirname(from)
  }
}
