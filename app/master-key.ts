import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigError, isMasterKey } from './config.ts'
import { Secret } from './secret.ts'

/**
 * The master key of embedded mode: made once in `master.key`, readable by its owner only. Processes
 * that start together end with the same key, since only one of them can link the file into place.
 */
export function ensureMasterKey(dataDir: string): Secret {
  const path = join(dataDir, 'master.key')
  mkdirSync(dataDir, { recursive: true })
  const existing = readKey(path)
  if (existing !== null) return existing
  const draft = `${path}.${randomBytes(8).toString('hex')}`
  writeFileSync(draft, `${randomBytes(32).toString('base64')}\n`, {
    mode: 0o600,
    flag: 'wx',
    flush: true,
  })
  try {
    linkSync(draft, path)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    rmSync(draft)
  }
  return readKey(path) ?? ensureMasterKey(dataDir)
}

function readKey(path: string): Secret | null {
  let content: string
  try {
    content = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
  if (isMasterKey(content)) return new Secret(content)
  throw new ConfigError([`${path} does not hold 32 bytes in base64; restore it from a backup`])
}

const codeOf = (error: unknown): unknown =>
  error instanceof Error && 'code' in error ? error.code : null
