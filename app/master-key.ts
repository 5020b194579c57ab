import { randomBytes } from 'node:crypto'
import { linkSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  parseMasterKey,
  masterKeyId,
  type MasterKey,
  type MasterKeys,
} from '../core/key-derivation-and-encryption.ts'
import { makeDataDir } from '../persistence/make-folder.ts'
import type { Sql } from '../persistence/start-postgres-and-redis.ts'
import {
  MasterKeyMismatchError,
  openStationKeys,
  type StationKeys,
} from '../persistence/encrypted-station-key-store.ts'
import { ConfigError, isMasterKey, type Config } from './config.ts'
import { SecretString } from './secret-string.ts'

/** Loads, creates and replaces the master key. */

type MasterKeySource = Pick<Config, 'masterKey' | 'masterKeyPrevious' | 'dataDir'>

/**
 * Loads the master keys, the current one first. Without `MASTER_KEY` they are files in the data
 * directory; the first is created if missing.
 */
export function loadMasterKeys(source: MasterKeySource): MasterKeys {
  return toMasterKeys(source, source.masterKey ?? ensureMasterKey(source.dataDir))
}

/** The same for commands that only use a key: one that is missing is a ConfigError (decision 420). */
export function loadExistingMasterKeys(source: MasterKeySource): MasterKeys {
  return toMasterKeys(source, source.masterKey ?? requireMasterKey(source.dataDir))
}

function requireMasterKey(dataDir: string): SecretString {
  const key = readKey(fileOf(dataDir, FILE))
  if (key !== null) return key
  throw new ConfigError([
    `there is no master key at ${fileOf(dataDir, FILE)}: set DATA_DIR or MASTER_KEY`,
  ])
}

function toMasterKeys(
  { masterKey: given, masterKeyPrevious, dataDir }: MasterKeySource,
  current: SecretString,
): MasterKeys {
  const first = read(current)
  const second = masterKeyPrevious ?? (given === null ? readKey(fileOf(dataDir, PREVIOUS)) : null)
  if (second === null) return [first]
  const before = read(second)
  return before.equals(first) ? [first] : [first, before]
}

const read = (secret: SecretString): MasterKey => parseMasterKey(secret.reveal())

/**
 * Loads the keys that do not change with the master key. Throws ConfigError when the master key
 * does not decrypt them.
 */
export async function loadStationKeys(sql: Sql, masters: MasterKeys): Promise<StationKeys> {
  try {
    return await openStationKeys(sql, masters)
  } catch (error) {
    throw error instanceof MasterKeyMismatchError ? new ConfigError([error.message]) : error
  }
}

const FILE = 'master.key'
const PREVIOUS = 'master.key.previous'
const fileOf = (dataDir: string, name: string) => join(dataDir, name)

/**
 * Creates a new master key in the data directory and keeps the old one beside it for decryption.
 * Can be interrupted and repeated without losing a key.
 */
export function replaceMasterKeyFile(dataDir: string): void {
  const [path, previous] = [fileOf(dataDir, FILE), fileOf(dataDir, PREVIOUS)]
  const old = requireMasterKey(dataDir).reveal()
  const kept = readKey(previous)?.reveal() ?? null
  if (kept !== null && kept !== old) {
    throw new ConfigError([`${previous} is there: finish that rotation by gas rotate-master-key`])
  }
  if (kept === null) writeDraft(previous, old, (draft) => linkSync(draft, previous))
  writeDraft(path, randomBytes(KEY_BYTES).toString('base64'), (draft) => renameSync(draft, path))
}

/**
 * Renames the old key after a rotation. It is kept, because earlier backups need it. Returns its
 * path, or null without one.
 */
export function renameRetiredMasterKeyFile(dataDir: string): string | null {
  const previous = fileOf(dataDir, PREVIOUS)
  const key = readKey(previous)
  if (key === null) return null
  const retired = fileOf(dataDir, `${FILE}.retired.${masterKeyId(read(key))}`)
  renameSync(previous, retired)
  return retired
}

const KEY_BYTES = 32

/** Writes and flushes a file before it gets its final name. */
function writeDraft(path: string, key: string, name: (draft: string) => void): void {
  const draft = `${path}.${randomBytes(8).toString('hex')}`
  writeFileSync(draft, `${key}\n`, { mode: 0o600, flag: 'wx', flush: true })
  try {
    name(draft)
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

/**
 * The master key of embedded mode: created once as `master.key`, readable by its owner. Processes
 * that start together use the same key, because only one can link the file.
 */
export function ensureMasterKey(dataDir: string): SecretString {
  const path = fileOf(dataDir, FILE)
  makeDataDir(dataDir)
  const existing = readKey(path)
  if (existing !== null) return existing
  const key = randomBytes(KEY_BYTES).toString('base64')
  writeDraft(path, key, (draft) => linkSync(draft, path))
  return readKey(path) ?? ensureMasterKey(dataDir)
}

function readKey(path: string): SecretString | null {
  let content: string
  try {
    content = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
  if (isMasterKey(content)) return new SecretString(content)
  throw new ConfigError([`${path} does not hold 32 bytes in base64; restore it from a backup`])
}

const codeOf = (error: unknown): unknown =>
  error instanceof Error && 'code' in error ? error.code : null
