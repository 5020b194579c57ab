import { isMainThread, Worker } from 'node:worker_threads'
import { stepBack } from './share.ts'
import { clampMemory } from './wasm.ts'
import { createOutput, readLine, say, short, type HostJob, type Interpreter } from './wire.ts'

/**
 * The program of a sandbox host: `main.js <language> [watch]`. It prepares an interpreter, says
 * `ready`, waits for a job, runs it, and begins again with a fresh one. It ends with its station.
 */
const makers: Record<string, () => Promise<() => Promise<Interpreter>>> = {
  python: async () => (await import('./python.ts')).pythonMaker(),
  javascript: async () => (await import('./javascript.ts')).javascriptMaker(),
  bash: async () => (await import('./bash.ts')).bashMaker(),
}

async function serve(language: string): Promise<never> {
  let isBack = stepBack()
  const make = await makers[language]?.()
  if (make === undefined) throw new Error(`no interpreter for ${language}`)
  for (;;) {
    const run = await make()
    isBack ||= stepBack()
    const output = createOutput()
    let asked = false
    const ended = await run(() => {
      asked = true
      output.open()
      say({ type: 'ready' })
      const job = JSON.parse(readLine()) as HostJob
      say({ type: 'begun' })
      return job
    }, output).catch((error: unknown) => {
      if (!asked) throw error
      return { result: null, error: short(`the interpreter failed: ${String(error)}`) }
    })
    if (!asked) throw new Error('the interpreter did not start')
    output.flush()
    const { stderr, truncated } = output
    say({ type: 'done', ...ended, stderr: stderr(), truncated: truncated() })
    // What the last job held is given back before the next one is measured.
    ;(globalThis as { gc?: () => void }).gc?.()
  }
}

if (isMainThread) {
  const [, , language = '', watch] = process.argv
  clampMemory()
  if (watch !== undefined) new Worker(new URL(import.meta.url), { argv: [] }).unref()
  await serve(language)
} else {
  // A program that never yields would not notice that the station has died: this thread does.
  const station = process.ppid
  setInterval(() => {
    if (process.ppid !== station) process.kill(process.pid, 'SIGKILL')
  }, 500)
}
