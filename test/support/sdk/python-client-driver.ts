import { execFileSync, spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

/** Drives `sdk/python/gas_station.py` under the Python versions of this machine. */

export interface PythonInterpreter {
  readonly path: string
  /** As `3.11`. */
  readonly version: string
}

/** The oldest version that the client supports. */
const MIN_MINOR = 10

/** Returns the oldest and the newest supported Python of this machine; fewer where there are fewer. */
export function findPythonInterpreters(): PythonInterpreter[] {
  const inFolder = (folder: string, pattern: RegExp, rest = '') => {
    try {
      const names = readdirSync(folder).filter((name) => pattern.test(name))
      return names.map((name) => join(folder, name, rest))
    } catch {
      return []
    }
  }
  const paths = [
    ...inFolder('/usr/bin', /^python3\.\d+$/),
    ...inFolder('/usr/local/bin', /^python3\.\d+$/),
    ...inFolder(join(homedir(), '.pyenv/versions'), /^3\.\d+/, 'bin/python3'),
  ]
  const byMinor = new Map(paths.flatMap((path) => versionOf(path).map((minor) => [minor, path])))
  const minors = [...byMinor.keys()].filter((minor) => minor >= MIN_MINOR).sort((a, b) => a - b)
  const chosen = [...new Set([minors[0], minors.at(-1)])]
  return chosen.flatMap((minor) =>
    minor === undefined ? [] : [{ path: byMinor.get(minor) ?? '', version: `3.${minor}` }],
  )
}

function versionOf(path: string): number[] {
  try {
    const text = execFileSync(path, ['-c', 'import ssl, sys; print(sys.version_info[1])'])
    return [Number(text)]
  } catch {
    return []
  }
}

export interface PythonAnswer {
  readonly result?: unknown
  readonly error?: string
  readonly code?: string
  readonly message?: string
}

export interface PythonClientRequest {
  /** A method of the client, or a word of the driver. */
  readonly what: string
  /** Options of the client; `payment: true` uses the hook. */
  readonly client?: object
  readonly args?: readonly unknown[]
  /** Named arguments. */
  readonly named?: object
  /** Options of the hook, read when it is made. */
  readonly hook?: object
  /** Seconds by which the clock is wrong from now on. */
  readonly clock?: number
}

export interface PythonClient {
  ask(request: PythonClientRequest): Promise<PythonAnswer>
  /** Ends the process. */
  end(): void
}

/** Starts a Python process; `sign` signs the typed data of its payments. */
export function startPythonClient(
  t: { teardown(work: () => unknown): unknown },
  { path }: PythonInterpreter,
  {
    sign = () => Promise.reject(new Error('nobody signs')),
    env = {},
  }: { sign?: (data: never) => Promise<string>; env?: Record<string, string> } = {},
): PythonClient {
  const driver = join(REPOSITORY_ROOT, 'test/support/sdk/drive_gas_station.py')
  const child = spawn(path, [driver, join(REPOSITORY_ROOT, 'sdk/python')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'], ...env },
  })
  t.teardown(() => child.kill())
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]()
  const write = (value: object) => child.stdin.write(`${JSON.stringify(value)}\n`)
  async function ask(request: PythonClientRequest): Promise<PythonAnswer> {
    write(request)
    for (;;) {
      const { done, value } = await lines.next()
      if (done === true) throw new Error('the Python program ended')
      const answer = JSON.parse(value as string) as PythonAnswer & { sign?: unknown }
      if (answer.sign === undefined) return answer
      write({ signature: await sign(answer.sign as never) })
    }
  }
  return { ask, end: () => void child.kill() }
}
