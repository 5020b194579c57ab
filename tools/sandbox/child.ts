import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import type { HostJob, HostResult, HostWord } from './host/wire.ts'
import { NOBODY, type Launch } from './launch.ts'
import type { Language } from './port.ts'

/** What became of a job. `late` and `memory` are ends that this side made. */
export type Outcome =
  | ({ readonly kind: 'done' } & HostResult)
  | { readonly kind: 'late' | 'memory' | 'died' }

/** One host process, as the station sees it. It runs one job at a time. */
export interface Child {
  readonly language: Language
  /** True once it waits for a job; false where it ended before that. */
  ready(): Promise<boolean>
  run(job: HostJob, onText: (delta: string) => void): Promise<Outcome>
  kill(): void
  readonly ended: Promise<void>
  readonly alive: () => boolean
  /** Jobs it was given so far. */
  readonly jobs: () => number
  /** Resident memory in bytes; zero where the system does not tell. */
  memory(): number
}

const MIB = 1024 * 1024
const MOST_MEMORY = 600 * MIB
const LOOK_MS = 25
/** These can end a program at its deadline by themselves, and keep their host. */
const GRACE_MS: Record<Language, number> = { javascript: 300, bash: 300, python: 0 }
const START_MS = 20_000
/** A host is not trusted either: it says no more than a job can print. */
const MOST_SAID = 4 * MIB
const PAGE = 4_096
/** How Node ends when its heap is full: by itself, or as bwrap tells of it. */
const CRASHES = new Set<string | number>([
  'SIGABRT',
  'SIGTRAP',
  'SIGILL',
  'SIGSEGV',
  132,
  133,
  134,
  139,
])

export function startChild(launch: Launch, language: Language): Child {
  const [file, ...args] = launch.command(language)
  const child = spawn(file, args, {
    cwd: '/',
    env: {},
    stdio: ['pipe', 'pipe', 'ignore', launch.tellsPid === true ? 'pipe' : 'ignore'],
    ...(launch.nobody === true ? { uid: NOBODY, gid: NOBODY } : {}),
  })
  const [stdin, stdout, , telling] = child.stdio as unknown as readonly [
    Writable,
    Readable,
    null,
    Readable | null,
  ]
  let pid = launch.tellsPid === true ? null : (child.pid ?? null)
  let [alive, waiting, crashed, jobs, said] = [true, false, false, 0, 0]
  let onReady: () => void = () => {}
  let onText: (delta: string) => void = () => {}
  let onDone: (outcome: Outcome) => void = () => {}
  const kill = () => void child.kill('SIGKILL')

  const ended = new Promise<void>((resolve) => {
    const end = (code: number | null, signal: string | null) => {
      alive = false
      crashed = CRASHES.has(signal ?? code ?? 0)
      resolve()
    }
    child.once('exit', end)
    child.once('error', () => end(null, null))
  })
  // It may be gone while it is written to: its end says so.
  stdin.on('error', () => {})
  stdout.on('error', () => {})
  telling?.on('data', (data: Buffer) => (pid ??= pidIn(data.toString())))

  eachLine(stdout, (line, size) => {
    said += size
    const word = said > MOST_SAID ? null : wordIn(line)
    if (word?.type === 'ready') {
      waiting = true
      onReady()
    } else if (word?.type === 'text') onText(word.delta)
    else if (word?.type === 'done') onDone({ kind: 'done', ...word })
    else kill()
  })

  const memory = () => (pid === null || !alive ? 0 : residentOf(pid))

  function ready(): Promise<boolean> {
    if (waiting || !alive) return Promise.resolve(waiting && alive)
    const late = setTimeout(kill, START_MS)
    const told = new Promise<void>((resolve) => (onReady = resolve))
    return Promise.race([told, ended]).then(() => {
      clearTimeout(late)
      return waiting && alive
    })
  }

  async function run(job: HostJob, hearText: (delta: string) => void): Promise<Outcome> {
    ;[waiting, said] = [false, 0]
    jobs += 1
    let killed: 'late' | 'memory' | null = null
    const end = (why: 'late' | 'memory') => {
      killed ??= why
      kill()
    }
    const deadline = setTimeout(end, job.timeoutMs + GRACE_MS[language], 'late')
    const look = setInterval(() => {
      if (memory() > MOST_MEMORY) end('memory')
    }, LOOK_MS)
    onText = hearText
    const done = new Promise<Outcome>((resolve) => (onDone = resolve))
    const dead = ended.then((): Outcome => ({ kind: killed ?? (crashed ? 'memory' : 'died') }))
    stdin.write(`${JSON.stringify(job)}\n`)
    try {
      return await Promise.race([done, dead])
    } finally {
      clearTimeout(deadline)
      clearInterval(look)
      onText = () => {}
    }
  }

  return { language, ready, run, kill, ended, alive: () => alive, jobs: () => jobs, memory }
}

function eachLine(stream: Readable, hear: (line: string, size: number) => void): void {
  let pending: Buffer[] = []
  stream.on('data', (data: Buffer) => {
    let from = 0
    for (let end = data.indexOf(10); end >= 0; end = data.indexOf(10, from)) {
      const line = Buffer.concat([...pending, data.subarray(from, end)])
      ;[pending, from] = [[], end + 1]
      hear(line.toString(), line.length)
    }
    pending.push(data.subarray(from))
    // A line without an end is no word.
    if (pending.reduce((sum, { length }) => sum + length, 0) > MOST_SAID) hear('', MOST_SAID + 1)
  })
}

function wordIn(line: string): HostWord | null {
  try {
    const word = JSON.parse(line) as HostWord
    if (word.type === 'ready') return word
    if (word.type === 'text') return typeof word.delta === 'string' ? word : null
    const { stderr, error, truncated } = word
    const sound = typeof stderr === 'string' && (error === null || typeof error === 'string')
    return word.type === 'done' && sound && typeof truncated === 'boolean' ? word : null
  } catch {
    return null
  }
}

const pidIn = (told: string): number | null => {
  const [, pid] = /"child-pid":\s*(\d+)/.exec(told) ?? []
  return pid === undefined ? null : Number(pid)
}

function residentOf(pid: number): number {
  try {
    const [, resident = '0'] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')
    return Number(resident) * PAGE
  } catch {
    return 0
  }
}
