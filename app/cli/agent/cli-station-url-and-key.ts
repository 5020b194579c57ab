import { closeSync, openSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { makeFolder } from '../../../persistence/make-folder.ts'
import { loadCliClientEnvironment } from '../../config.ts'
import { SecretString } from '../../secret-string.ts'
import { fileFailure, findFileMode, readTextFile, replaceFile } from '../cli-files.ts'
import { CliFailure } from '../cli-verb.ts'

/**
 * Where the station of the agents' verbs is, and the key for it: `GAS_URL` and `GAS_API_KEY`, else
 * the settings file. A key of the file goes to the station that it was saved for, and to no other.
 */

const EX_CONFIG = 78
const DEFAULT_URL = 'http://127.0.0.1:8402'

export interface StationUrlAndApiKey {
  /** Without a slash at its end. */
  readonly url: string
  readonly apiKey: SecretString | null
  readonly keyFrom: 'GAS_API_KEY' | 'file' | null
  readonly file: string
}

interface SettingsFile {
  readonly url: string | null
  readonly keys: Readonly<Record<string, string>>
  /** Keys that were replaced, the latest last: each may be the only copy. */
  readonly earlier_keys: Readonly<Record<string, readonly string[]>>
}

const LOCK_POLL_MS = 20
/** One program may hold the lock for this long. */
const STALE_LOCK_MS = 5_000
/** Other programs that take the lock one after the other are waited for this long. */
const MAX_LOCK_WAIT_MS = 60_000

/** Throws `CliFailure` if the settings are unusable, or if others can read the file. */
export function loadStationUrlAndApiKey(): StationUrlAndApiKey {
  const { url: wanted, apiKey, settingsFile: file } = loadCliClientEnvironment()
  const saved = readSettingsFile(file)
  const url = normalizeStationUrl(wanted ?? saved.url ?? DEFAULT_URL)
  if (apiKey !== null) return { url, apiKey: checkedKey(apiKey), keyFrom: 'GAS_API_KEY', file }
  const key = Object.hasOwn(saved.keys, url) ? saved.keys[url] : undefined
  if (key === undefined) return { url, apiKey: null, keyFrom: null, file }
  return { url, apiKey: new SecretString(key), keyFrom: 'file', file }
}

/** Throws `CliFailure` for a key that no header can hold: the request would seem to reach no station. */
function checkedKey(key: SecretString): SecretString {
  if (/^[\x21-\x7e]+$/.test(key.reveal())) return key
  throw new CliFailure('GAS_API_KEY has characters that no key has', 3)
}

/**
 * Saves the key of a station, which becomes the default one. A key that it replaces is kept in the file. Returns
 * the path of the file.
 */
export function saveStationApiKeyAsDefault(url: string, key: string): string {
  return changeSettingsFile(({ keys, earlier_keys: earlier }) => {
    const before = Object.hasOwn(keys, url) ? keys[url] : undefined
    const kept = (Object.hasOwn(earlier, url) ? earlier[url] : undefined) ?? []
    const isReplaced = before !== undefined && before !== key
    return {
      url,
      keys: { ...keys, [url]: key },
      earlier_keys: isReplaced ? { ...earlier, [url]: [...kept, before] } : earlier,
    }
  })
}

/** Makes a station the default one. Returns the path of the file. */
export function saveDefaultStationUrl(url: string): string {
  return changeSettingsFile((before) => ({ ...before, url }))
}

/** Removes the key of a station. Returns whether there was one. */
export function removeSavedStationApiKey(url: string): boolean {
  let had = false
  changeSettingsFile((before) => {
    had = Object.hasOwn(before.keys, url)
    const without = <T>(all: Readonly<Record<string, T>>) =>
      Object.fromEntries(Object.entries(all).filter(([station]) => station !== url))
    return {
      ...before,
      keys: without(before.keys),
      earlier_keys: without(before.earlier_keys),
    }
  })
  return had
}

/** The form in which addresses of stations are compared. */
export function normalizeStationUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null
  const isWeb = url !== null && /^https?:$/.test(url.protocol) && url.host !== ''
  if (url === null || !isWeb || url.username !== '' || url.password !== '' || url.search !== '')
    throw new CliFailure(
      'the address of the station must be an http or https URL without a user and a query',
      EX_CONFIG,
    )
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '')
}

/** Changes the file; programs that change it together wait for each other. */
function changeSettingsFile(change: (before: SettingsFile) => SettingsFile): string {
  const { settingsFile: file } = loadCliClientEnvironment()
  const lock = `${file}.lock`
  lockSettings(file, lock)
  try {
    const { url, keys, earlier_keys: earlier } = change(readSettingsFile(file))
    const more = Object.keys(earlier).length === 0 ? {} : { earlier_keys: earlier }
    const text = JSON.stringify({ ...(url === null ? {} : { url }), keys, ...more }, null, 2)
    replaceFile(file, `${text}\n`)
    return file
  } finally {
    rmSync(lock, { force: true })
  }
}

function lockSettings(file: string, lock: string): void {
  try {
    makeFolder(dirname(file), 0o700)
    waitForLock(lock)
  } catch (error) {
    throw fileFailure(file, 'written', error)
  }
}

function waitForLock(lock: string): void {
  const sleeper = new Int32Array(new SharedArrayBuffer(4))
  let [holder, total] = ['', 0]
  for (let waited = 0; !takeLock(lock); waited += LOCK_POLL_MS) {
    total += LOCK_POLL_MS
    if (total > MAX_LOCK_WAIT_MS) throw new Error(`other programs hold ${lock}`)
    const now = statSync(lock, { throwIfNoEntry: false })
    const name = now === undefined ? '' : `${now.ino} ${now.mtimeMs}`
    if (name !== holder) waited = 0
    holder = name
    // A change takes milliseconds: this lock is of a program that was killed.
    if (waited >= STALE_LOCK_MS) rmSync(lock, { force: true })
    Atomics.wait(sleeper, 0, 0, LOCK_POLL_MS)
  }
}

function takeLock(lock: string): boolean {
  try {
    closeSync(openSync(lock, 'wx', 0o600))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

function readSettingsFile(file: string): SettingsFile {
  const mode = findFileMode(file)
  if (mode === null) return { url: null, keys: {}, earlier_keys: {} }
  if ((mode & 0o077) !== 0 && process.platform !== 'win32')
    throw new CliFailure(
      `others can read ${file}, which has keys: run chmod 600 ${file}`,
      EX_CONFIG,
    )
  try {
    const parsed = JSON.parse(readTextFile(file)) as Record<string, unknown>
    const { url } = parsed
    return {
      url: typeof url === 'string' ? url : null,
      keys: membersOf(parsed['keys'], isText),
      earlier_keys: membersOf(parsed['earlier_keys'], isTextList),
    }
  } catch (error) {
    throw fileFailure(file, 'read', error)
  }
}

const isText = (value: unknown): value is string => typeof value === 'string'
const isTextList = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every(isText)

/** Returns the members of an object that have the right type. */
function membersOf<T>(
  object: unknown,
  isRight: (value: unknown) => value is T,
): Readonly<Record<string, T>> {
  const pairs = typeof object === 'object' && object !== null ? Object.entries(object) : []
  return Object.fromEntries(pairs.filter((pair): pair is [string, T] => isRight(pair[1])))
}
