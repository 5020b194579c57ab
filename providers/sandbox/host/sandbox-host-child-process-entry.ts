import { isMainThread, Worker } from 'node:worker_threads'
import { lowerSandboxHostCpuPriority } from './cpu-priority.ts'
import { limitWasmMemory } from './wasm-memory.ts'
import {
  createSandboxJobOutputCollector,
  readSandboxProtocolLine,
  writeSandboxHostMessage,
  truncateToJsonBytes,
  type SandboxHostJob,
  type SandboxJobInterpreter,
} from './sandbox-job-protocol.ts'

/**
 * The program of a sandbox host: `sandbox-host-child-process-entry.js <language> [watch]`. It prepares an interpreter, reports `ready`,
 * waits for a job, runs it, and starts again with a fresh interpreter. It ends with its station.
 */

const interpreterFactories: Record<string, () => Promise<() => Promise<SandboxJobInterpreter>>> = {
  python: async () =>
    (await import('./sandbox-python-interpreter.ts')).createPythonInterpreterFactory(),
  javascript: async () =>
    (await import('./sandbox-javascript-interpreter.ts')).createJavascriptInterpreterFactory(),
  bash: async () => (await import('./sandbox-bash-interpreter.ts')).createBashInterpreterFactory(),
}

async function serveJobs(language: string): Promise<never> {
  let isBack = lowerSandboxHostCpuPriority()
  const make = await interpreterFactories[language]?.()
  if (make === undefined) throw new Error(`no interpreter for ${language}`)
  for (;;) {
    const run = await make()
    isBack ||= lowerSandboxHostCpuPriority()
    const output = createSandboxJobOutputCollector()
    let asked = false
    const ended = await run(() => {
      asked = true
      output.open()
      writeSandboxHostMessage({ type: 'ready' })
      const job = JSON.parse(readSandboxProtocolLine()) as SandboxHostJob
      writeSandboxHostMessage({ type: 'begun' })
      return job
    }, output).catch((error: unknown) => {
      if (!asked) throw error
      return {
        result: null,
        error: truncateToJsonBytes(`the interpreter failed: ${String(error)}`),
      }
    })
    if (!asked) throw new Error('the interpreter did not start')
    output.flush()
    const { stderr, truncated } = output
    writeSandboxHostMessage({ type: 'done', ...ended, stderr: stderr(), truncated: truncated() })
    // Frees the memory of the last job before the next measurement.
    ;(globalThis as { gc?: () => void }).gc?.()
  }
}

if (isMainThread) {
  const [, , language = '', watch] = process.argv
  limitWasmMemory()
  if (watch !== undefined) new Worker(new URL(import.meta.url), { argv: [] }).unref()
  await serveJobs(language)
} else {
  // A program that never yields would not notice the end of the station; this thread does.
  const station = process.ppid
  setInterval(() => {
    if (process.ppid !== station) process.kill(process.pid, 'SIGKILL')
  }, 500)
}
