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
  type PageSnapshot,
  type MessageToBrowserHost,
} from './host/ipc-protocol.ts'

/** A browser host as the station sees it: one process, one Chromium, any number of sessions. */
export interface BrowserHostProcess {
  /** Rejects with a HostFault, or with `browser_busy` when the host is gone. */
  request(
    ask: BrowserHostRequest,
    before?: () => void,
  ): Promise<PageSnapshot | LaunchedChromium | null>
  /** Calls back when the page of a session has sent something by itself; null ends that. */
  onSideEffect(session: number, told: (() => void) | null): void
  /** Ends it in good order; where it does not end so, it is killed. */
  quit(): Promise<void>
  kill(): void
  /** Of all processes of its Chromium, in bytes, what they share counted for each; 0 where it cannot be told. */
  readMemoryBytes(): Promise<number>
  /** False from its end on; its files may still be going then. */
  isAlive(): boolean
  /** Its processes are gone, and its files. */
  readonly ended: Promise<void>
}

/** What a page would not do. */
export class BrowserHostError extends Error {
  readonly fault: PageFailure
  constructor(fault: PageFailure) {
    super(fault.detail)
    this.fault = fault
  }
}

/** Whose rights it has, and whether Chromium keeps a sandbox of its own. */
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

/** A host whose Chromium runs; rejects where it does not start this way. */
export async function startBrowserHostProcess(
  settings: BrowserHostSettings,
  way: ChromiumLaunchMode,
): Promise<BrowserHostProcess> {
  const { executable, searchPath: path, userAgent } = settings
  const { host, setChromium } = spawnBrowserHostProcess(way)
  try {
    const sandbox = way.sandbox
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
  // Everything it writes, and Chromium, is in here.
  const folder = mkdtempSync(join(tmpdir(), BROWSER_TEMP_PREFIX))
  if (nobody) chownSync(folder, NOBODY, NOBODY)
  const child = spawn(
    process.execPath,
    [`--max-old-space-size=${BROWSER_HOST_HEAP_MIB}`, ...hostProgramArguments()],
    {
      cwd: folder,
      // Not ours: it holds every secret of the station.
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
      // Chromium may still be writing while it ends.
      void rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
        .catch(() => {})
        .then(resolve)
    }
    child.once('exit', end)
    child.once('error', end)
  })

  child.on('message', (word: MessageFromBrowserHost) => {
    if ('before' in word) return allow(word.before)
    if ('sent' in word) return senders.get(word.sent)?.()
    const question = open.get(word.id)
    open.delete(word.id)
    if ('fault' in word) question?.reject(new BrowserHostError(word.fault))
    else question?.resolve(word.value)
  })

  /** What refuses is what the question fails with. */
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

  // A host that is just ending takes no more: its end is the answer.
  const send = (word: MessageToBrowserHost) => void child.send(word, () => {})

  const kill = () => {
    killProcessGroup(chromium)
    child.kill('SIGKILL')
  }

  const host: BrowserHostProcess = {
    request: (ask, before = () => {}) =>
      new Promise((resolve, reject) => {
        if (!alive) return reject(browserBusyError('The browser died.'))
        const id = (next += 1)
        open.set(id, { resolve, reject, before })
        send({ id, ...ask })
      }),
    onSideEffect(session, told) {
      if (told === null) senders.delete(session)
      else senders.set(session, told)
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
  resolve(value: PageSnapshot | LaunchedChromium | null): void
  reject(reason: unknown): void
  before(): void
}

/** Chromium leads a group of its own, with all its helpers in it. */
function killProcessGroup(leader: number): void {
  if (leader <= 1) return
  try {
    process.kill(-leader, 'SIGKILL')
  } catch {
    // It is gone.
  }
}

/** The host's program as it was built beside this file, or its source by way of tsx. */
function hostProgramArguments(): string[] {
  if (BUILT) return [fileURLToPath(new URL('./host/main.js', import.meta.url))]
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
  return ['--import', tsx, fileURLToPath(new URL('./host/main.ts', import.meta.url))]
}
