import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseMasterKey, masterKeyId, type MasterKey, type MasterKeys } from '../core/crypto.ts'
import type { Sql } from '../persistence/data-plane.ts'
import {
  MasterKeyMismatchError,
  openStationKeys,
  type StationKeys,
} from '../persistence/station-keys.ts'
import { ConfigError, isMasterKey, type Config } from './config.ts'
import { SecretString } from './secret-string.ts'

type MasterKeySource = Pick<Config, 'masterKey' | 'masterKeyPrevious' | 'dataDir'>

/**
 * The master keys of the settings, the one in use first. Without `MASTER_KEY` both are files in the
 * data directory, and the first is made when there is none.
 */
export function loadMasterKeys({
  masterKey: given,
  masterKeyPrevious,
  dataDir,
}: MasterKeySource): MasterKeys {
  const first = read(given ?? ensureMasterKey(dataDir))
  const second = masterKeyPrevious ?? (given === null ? readKey(fileOf(dataDir, PREVIOUS)) : null)
  if (second === null) return [first]
  const before = read(second)
  return before.equals(first) ? [first] : [first, before]
}

const read = (secret: SecretString): MasterKey => parseMasterKey(secret.reveal())

/** The keys that outlive every master key; throws a ConfigError when the settings' do not open them. */
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
 * Makes a new master key in the data directory and keeps the old one beside it, for stations started
 * from then on to open what it has sealed. Ended at any point and done again, no key is lost.
 */
export function replaceMasterKey(dataDir: string): void {
  const [path, previous] = [fileOf(dataDir, FILE), fileOf(dataDir, PREVIOUS)]
  const old = ensureMasterKey(dataDir).reveal()
  const kept = readKey(previous)?.reveal() ?? null
  if (kept !== null && kept !== old) {
    throw new ConfigError([`${previous} is there: finish that rotation by gas rotate-master-key`])
  }
  if (kept === null) writeDraft(previous, old, (draft) => linkSync(draft, previous))
  writeDraft(path, randomBytes(KEY_BYTES).toString('base64'), (draft) => renameSync(draft, path))
}

/** The old key is in use no more. Backups from before still need it, so it stays under another name. */
export function retirePreviousMasterKey(dataDir: string): string | null {
  const previous = fileOf(dataDir, PREVIOUS)
  const key = readKey(previous)
  if (key === null) return null
  const retired = fileOf(dataDir, `${FILE}.retired.${masterKeyId(read(key))}`)
  renameSync(previous, retired)
  return retired
}

const KEY_BYTES = 32

/** A file is written whole and flushed before it gets its name. */
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
 * The master key of embedded mode: made once in `master.key`, readable by its owner only. Processes
 * that start together end with the same key, since only one of them can link the file into place.
 */
export function ensureMasterKey(dataDir: string): SecretString {
  const path = fileOf(dataDir, FILE)
  mkdirSync(dataDir, { recursive: true })
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
