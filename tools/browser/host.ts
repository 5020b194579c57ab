import { spawn } from 'node:child_process'
import { mkdtempSync, chownSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { ServiceError } from '../../core/errors.ts'
import { groupMemory } from './memory.ts'
import {
  FOLDER,
  type Ask,
  type Fault,
  type FromHost,
  type Launched,
  type PageSaid,
  type ToHost,
} from './host/wire.ts'

/** A browser host as the station sees it: one process, one Chromium, any number of sessions. */
export interface Host {
  /** Rejects with a HostFault, or with `browser_busy` when the host is gone. */
  ask(ask: Ask, before?: () => void): Promise<PageSaid | Launched | null>
  /** Calls back when the page of a session has sent something by itself; null ends that. */
  onSent(session: number, told: (() => void) | null): void
  /** Ends it in good order; where it does not end so, it is killed. */
  quit(): Promise<void>
  kill(): void
  /** Of all processes of its Chromium, in bytes, what they share counted for each; 0 where it cannot be told. */
  memory(): Promise<number>
  /** False from its end on; its files may still be going then. */
  lives(): boolean
  /** Its processes are gone, and its files. */
  readonly ended: Promise<void>
}

/** What a page would not do. */
export class HostFault extends Error {
  readonly fault: Fault
  constructor(fault: Fault) {
    super(fault.detail)
    this.fault = fault
  }
}

/** Whose rights it has, and whether Chromium keeps a sandbox of its own. */
export interface HostWay {
  readonly nobody: boolean
  readonly sandbox: boolean
}

export interface HostSettings {
  readonly executable: string
  readonly searchPath: string
  readonly userAgent: string
}

const NOBODY = 65_534
const HEAP_MIB = 512
const QUIT_MS = 3_000
const BUILT = !import.meta.url.endsWith('.ts')

export const busy = (detail?: string): ServiceError =>
  new ServiceError('browser_busy', { retry_after: 2, ...(detail === undefined ? {} : { detail }) })

/** A host whose Chromium runs; rejects where it does not start this way. */
export async function startHost(settings: HostSettings, way: HostWay): Promise<Host> {
  const { executable, searchPath: path, userAgent } = settings
  const { host, setChromium } = spawnHost(way)
  try {
    const sandbox = way.sandbox
    const launched = await host.ask({ op: 'launch', executable, sandbox, path, userAgent })
    setChromium((launched as Launched).pid)
    return host
  } catch (error) {
    host.kill()
    await host.ended
    throw error
  }
}

function spawnHost({ nobody }: HostWay) {
  // Everything it writes, and Chromium, is in here.
  const folder = mkdtempSync(join(tmpdir(), FOLDER))
  if (nobody) chownSync(folder, NOBODY, NOBODY)
  const child = spawn(process.execPath, [`--max-old-space-size=${HEAP_MIB}`, ...program()], {
    cwd: folder,
    // Not ours: it holds every secret of the station.
    env: { HOME: folder, TMPDIR: folder },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    ...(nobody ? { uid: NOBODY, gid: NOBODY } : {}),
  })
  const open = new Map<number, Question>()
  const senders = new Map<number, () => void>()
  let [alive, next, chromium] = [true, 0, 0]

  const ended = new Promise<void>((resolve) => {
    const end = () => {
      if (!alive) return
      alive = false
      killGroup(chromium)
      for (const { reject } of open.values()) reject(busy('The browser died.'))
      open.clear()
      // Chromium may still be writing while it ends.
      void rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
        .catch(() => {})
        .then(resolve)
    }
    child.once('exit', end)
    child.once('error', end)
  })

  child.on('message', (word: FromHost) => {
    if ('before' in word) return allow(word.before)
    if ('sent' in word) return senders.get(word.sent)?.()
    const question = open.get(word.id)
    open.delete(word.id)
    if ('fault' in word) question?.reject(new HostFault(word.fault))
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
  const send = (word: ToHost) => void child.send(word, () => {})

  const kill = () => {
    killGroup(chromium)
    child.kill('SIGKILL')
  }

  const host: Host = {
    ask: (ask, before = () => {}) =>
      new Promise((resolve, reject) => {
        if (!alive) return reject(busy('The browser died.'))
        const id = (next += 1)
        open.set(id, { resolve, reject, before })
        send({ id, ...ask })
      }),
    onSent(session, told) {
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
    memory: () => groupMemory(chromium),
    lives: () => alive,
    ended,
  }
  return { host, setChromium: (pid: number) => (chromium = pid) }
}

interface Question {
  resolve(value: PageSaid | Launched | null): void
  reject(reason: unknown): void
  before(): void
}

/** Chromium leads a group of its own, with all its helpers in it. */
function killGroup(leader: number): void {
  if (leader <= 1) return
  try {
    process.kill(-leader, 'SIGKILL')
  } catch {
    // It is gone.
  }
}

/** The host's program as it was built beside this file, or its source by way of tsx. */
function program(): string[] {
  if (BUILT) return [fileURLToPath(new URL('./host/main.js', import.meta.url))]
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
  return ['--import', tsx, fileURLToPath(new URL('./host/main.ts', import.meta.url))]
}
