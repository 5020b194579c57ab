import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { HttpLoadPlan, HttpLoadResult } from './http-load-generator.ts'

/** A child process that runs a program of this folder and prints each result as one line. */
export interface BenchmarkChildProgram {
  readonly pid: number
  /** Writes a line if given, and resolves with the next line of output. */
  ask(line?: string): Promise<string>
  stop(): Promise<void>
}

export function spawnBenchmarkChildProgram(
  name: string,
  args: readonly string[],
  nodeArgs: readonly string[] = [],
): BenchmarkChildProgram {
  const program = fileURLToPath(new URL(name, import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, ...nodeArgs, program, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  }) as ChildProcess & { stdin: NodeJS.WritableStream; stdout: NodeJS.ReadableStream }
  const exited = new Promise<void>((done) => child.once('exit', () => done()))
  const lines: string[] = []
  const waiting: ((line: string) => void)[] = []
  createInterface(child.stdout).on('line', (line) => {
    const heard = waiting.shift()
    if (heard === undefined) lines.push(line)
    else heard(line)
  })
  return {
    pid: child.pid ?? 0,
    ask(line) {
      if (line !== undefined) child.stdin.write(`${line}\n`)
      const said = lines.shift()
      if (said !== undefined) return Promise.resolve(said)
      const gone = exited.then(() => Promise.reject(new Error(`${name} ended early`)))
      return Promise.race([new Promise<string>((resolve) => waiting.push(resolve)), gone])
    },
    async stop() {
      child.stdin.end()
      await exited
    },
  }
}

/** Runs one load in a separate process. */
export async function runLoadGenerator(plan: HttpLoadPlan): Promise<HttpLoadResult> {
  const dir = mkdtempSync(join(tmpdir(), 'gas-station-load-'))
  const file = join(dir, 'plan.json')
  writeFileSync(file, JSON.stringify(plan))
  const generator = spawnBenchmarkChildProgram('http-load-generator.ts', [file])
  try {
    return JSON.parse(await generator.ask()) as HttpLoadResult
  } finally {
    await generator.stop()
    rmSync(dir, { recursive: true })
  }
}
