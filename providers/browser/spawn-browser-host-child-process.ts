import { spawn } from 'node:child_process'
import { mkdtempSync, chownSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ServiceError } from '../../core/errors.ts'
import { readProcessGroupMemory } from './process-group-memory.ts'
import {
  BROWSER_TEMP_PREFIX,
  type BrowserHostRequest,
  type PageFailure,
  type MessageFromBrowserHost,
  type LaunchedChromium,
  type RenderedPageHtmlAndStatus,
  type MessageToBrowserHost,
} from './host/browser-host-protocol.ts'

/** A browser host process: one Chromium with any number of sessions. */
export interface BrowserHostProcess {
  /** Sends a request. Rejects with a `BrowserPageActionError`, or with `browser_busy` when the host has ended. */
  request(
    hostRequest: BrowserHostRequest,
    before?: () => void,
  ): Promise<RenderedPageHtmlAndStatus | LaunchedChromium | null>
  /** Calls back when the page of a session sends a request by itself; null removes the callback. */
  onSideEffect(session: number, callback: (() => void) | null): void
  /** Ends the host gracefully, and kills it after a timeout. */
  quit(): Promise<void>
  kill(): void
  /** Memory of all its Chromium processes in bytes, shared memory counted for each; 0 where it is unknown. */
  readMemoryBytes(): Promise<number>
  /** False once the host has ended; its files may still be being removed. */
  isAlive(): boolean
  /** Resolves when its processes and files are gone. */
  readonly ended: Promise<void>
}

/** An action that failed in a page. */
export class BrowserPageActionError extends Error {
  readonly fault: PageFailure
  constructor(failure: PageFailure) {
    super(failure.detail)
    this.fault = failure
  }
}

/** The user of the process, and whether Chromium uses its own sandbox. */
export interface ChromiumLaunchMode {
  readonly nobody: boolean
  readonly sandbox: boolean
}

export interface BrowserHostSettings {
  readonly executable: string
  readonly searchPath: string
  readonly userAgent: string
}

const NOBODY = 65_534
const BROWSER_HOST_HEAP_MIB = 512
const QUIT_MS = 3_000
const BUILT = !import.meta.url.endsWith('.ts')

export const browserBusyError = (detail?: string): ServiceError =>
  new ServiceError('browser_busy', { retry_after: 2, ...(detail === undefined ? {} : { detail }) })

/** Starts a host with a running Chromium; rejects where it does not start in this mode. */
export async function startBrowserHostProcess(
  settings: BrowserHostSettings,
  mode: ChromiumLaunchMode,
): Promise<BrowserHostProcess> {
  const { executable, searchPath: path, userAgent } = settings
  const { host, setChromium } = spawnBrowserHostProcess(mode)
  try {
    const sandbox = mode.sandbox
    const launched = await host.request({ op: 'launch', executable, sandbox, path, userAgent })
    setChromium((launched as LaunchedChromium).pid)
    return host
  } catch (error) {
    host.kill()
    await host.ended
    throw error
  }
}

function spawnBrowserHostProcess({ nobody }: ChromiumLaunchMode) {
  // Holds everything that the host and Chromium write.
  const folder = mkdtempSync(join(tmpdir(), BROWSER_TEMP_PREFIX))
  if (nobody) chownSync(folder, NOBODY, NOBODY)
  const child = spawn(
    process.execPath,
    [`--max-old-space-size=${BROWSER_HOST_HEAP_MIB}`, ...hostProgramArguments()],
    {
      cwd: folder,
      // Not this process's environment, which holds every secret of the station.
      env: { HOME: folder, TMPDIR: folder },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      ...(nobody ? { uid: NOBODY, gid: NOBODY } : {}),
    },
  )
  const open = new Map<number, PendingHostRequest>()
  const senders = new Map<number, () => void>()
  let [alive, next, chromium] = [true, 0, 0]

  const ended = new Promise<void>((resolve) => {
    const end = () => {
      if (!alive) return
      alive = false
      killProcessGroup(chromium)
      for (const { reject } of open.values()) reject(browserBusyError('The browser died.'))
      open.clear()
      // Chromium may still write while it ends.
      void rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
        .catch(() => {})
        .then(resolve)
    }
    child.once('exit', end)
    child.once('error', end)
  })

  child.on('message', (message: MessageFromBrowserHost) => {
    if ('before' in message) return allow(message.before)
    if ('sent' in message) return senders.get(message.sent)?.()
    const question = open.get(message.id)
    open.delete(message.id)
    if ('fault' in message) question?.reject(new BrowserPageActionError(message.fault))
    else question?.resolve(message.value)
  })

  /** An exception here fails the request. */
  function allow(id: number): void {
    const question = open.get(id)
    try {
      question?.before()
      send({ go: id, may: question !== undefined })
    } catch (error) {
      send({ go: id, may: false })
      open.delete(id)
      question?.reject(error)
    }
  }

  // A host that is ending accepts nothing; its end rejects the request.
  const send = (message: MessageToBrowserHost) => void child.send(message, () => {})

  const kill = () => {
    killProcessGroup(chromium)
    child.kill('SIGKILL')
  }

  const host: BrowserHostProcess = {
    request: (hostRequest, before = () => {}) =>
      new Promise((resolve, reject) => {
        if (!alive) return reject(browserBusyError('The browser died.'))
        const id = (next += 1)
        open.set(id, { resolve, reject, before })
        send({ id, ...hostRequest })
      }),
    onSideEffect(session, callback) {
      if (callback === null) senders.delete(session)
      else senders.set(session, callback)
    },
    async quit() {
      const late = setTimeout(kill, QUIT_MS)
      if (alive) send({ id: (next += 1), op: 'quit' })
      await ended
      clearTimeout(late)
    },
    kill,
    readMemoryBytes: () => readProcessGroupMemory(chromium),
    isAlive: () => alive,
    ended,
  }
  return { host, setChromium: (pid: number) => (chromium = pid) }
}

interface PendingHostRequest {
  resolve(value: RenderedPageHtmlAndStatus | LaunchedChromium | null): void
  reject(reason: unknown): void
  before(): void
}

/** Chromium leads a process group that contains all its helpers. */
function killProcessGroup(leader: number): void {
  if (leader <= 1) return
  try {
    process.kill(-leader, 'SIGKILL')
  } catch {
    // The group has ended already.
  }
}

/** The built program beside this file, or its source run by tsx. */
function hostProgramArguments(): string[] {
  if (BUILT)
    return [fileURLToPath(new URL('./host/browser-host-child-process-entry.js', import.meta.url))]
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
  return [
    '--import',
    tsx,
    fileURLToPath(new URL('./host/browser-host-child-process-entry.ts', import.meta.url)),
  ]
}
