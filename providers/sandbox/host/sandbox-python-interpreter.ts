import { readFileSync } from 'node:fs'
import Module, { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { PYTHON_RUNNER_SOURCE } from './sandbox-python-runner.ts'
import { compileWasmFile } from './wasm-memory.ts'
import {
  truncateToJsonBytes,
  parseBoundedJson,
  type SandboxInterpreterResult,
  type SandboxHostJob,
  type SandboxJobInterpreter,
  type SandboxJobOutputCollector,
} from './sandbox-job-protocol.ts'

/** The Python interpreter of a sandbox host. */

/** The part of CPython's Emscripten API in use. */
interface Python {
  callMain(args: string[]): number
}
interface EmscriptenRuntime {
  readonly FS: {
    init(input: () => number | null, output: ByteSink, error: ByteSink): void
    mkdirTree(path: string): void
    writeFile(path: string, data: string | Uint8Array): void
    readFile(path: string, options: { encoding: 'utf8' }): string
  }
  readonly ENV: Record<string, string>
}
type ByteSink = (byte: number | null) => void
type CreatePython = (options: Record<string, unknown>) => Promise<Python>
type InstanceReceiver = (instance: WebAssembly.Instance, module: WebAssembly.Module) => void

const NEWLINE = 10
const ENOTSUP = 138
/** Modules that CPython's runtime loads; its sockets and its shell would need others. */
const ALLOWED_MODULES = new Set(['node:fs', 'node:crypto'])

/** Creates interpreters: CPython is compiled once, and starts with empty files for each job. */
export async function createPythonInterpreterFactory(): Promise<
  () => Promise<SandboxJobInterpreter>
> {
  const require = createRequire(import.meta.url)
  const home = join(dirname(require.resolve('just-bash')), '../../vendor/cpython-emscripten')
  const create = require(join(home, 'python.cjs')) as CreatePython
  const program = await compileWasmFile(join(home, 'python.wasm'))
  const library = readFileSync(join(home, 'python313.zip'))
  refuseModules()
  return async () => (next, output) => runPython({ create, program, library }, next, output)
}

/** From here on no module that reaches a network or starts a program can be loaded. */
function refuseModules(): void {
  const loader = Module as unknown as { _load(name: string, ...rest: unknown[]): unknown }
  const load = loader._load
  loader._load = (name, ...rest) => {
    // The runtime converts this code to an OSError; other exceptions would end it.
    if (!ALLOWED_MODULES.has(name))
      throw Object.assign(new Error(name), { name: 'ErrnoError', errno: ENOTSUP })
    return load.call(loader, name, ...rest)
  }
}

interface PythonDeps {
  readonly create: CreatePython
  readonly program: WebAssembly.Module
  readonly library: Uint8Array
}

/**
 * Starts the interpreter before there is a job: the runner reads a line when it is ready, which waits for the
 * job. So jobs find Python running.
 */
async function runPython(
  parts: PythonDeps,
  next: () => SandboxHostJob,
  output: SandboxJobOutputCollector,
): Promise<SandboxInterpreterResult> {
  let files: EmscriptenRuntime['FS'] | null = null
  let asked = false
  const stdin = () => {
    if (asked) return null
    asked = true
    files?.writeFile('/tmp/job.json', JSON.stringify(next()))
    return NEWLINE
  }
  const [stdout, stderr] = [
    createTextDecoderSink(output.text),
    createTextDecoderSink(output.problem),
  ]
  const prepare = ({ FS, ENV }: EmscriptenRuntime) => {
    files = FS
    FS.init(stdin, stdout.sink, stderr.sink)
    FS.mkdirTree('/lib')
    FS.mkdirTree('/tmp')
    FS.writeFile('/lib/python313.zip', parts.library)
    FS.writeFile('/lib/runner.py', PYTHON_RUNNER_SOURCE)
    for (const name of Object.keys(ENV)) delete ENV[name]
    Object.assign(ENV, { PYTHONHOME: '/', PYTHONPATH: '/lib/python313.zip', HOME: '/tmp' })
  }
  const python = await parts.create({
    noInitialRun: true,
    thisProgram: '/usr/bin/python3',
    preRun: [prepare],
    printErr: () => {},
    instantiateWasm(imports: WebAssembly.Imports, receive: InstanceReceiver) {
      void WebAssembly.instantiate(parts.program, imports).then((it) => receive(it, parts.program))
      return {}
    },
  })
  const died = attempt(() => python.callMain(['-S', '-B', '-X', 'utf8', '/lib/runner.py']))
  stdout.flush()
  stderr.flush()
  const told = attempt(() => files?.readFile('/tmp/result.json', { encoding: 'utf8' }) ?? '')
  const left = told.value ?? ''
  const why = died.error?.message ?? `exit code ${died.value ?? 'unknown'}`
  if (left === '')
    return { result: null, error: truncateToJsonBytes(`the interpreter ended: ${why}`) }
  return (
    resultIn(left) ?? {
      result: null,
      error: truncateToJsonBytes(`its result cannot be read: ${why}`),
    }
  )
}

/** The program may have overwritten the file: returns null for anything but the runner's format. */
function resultIn(left: string): SandboxInterpreterResult | null {
  const { value } = attempt(() => {
    const { result, error } = JSON.parse(left) as Readonly<Record<string, unknown>>
    if (!isTextOrNull(result) || !isTextOrNull(error)) return null
    return {
      result: parseBoundedJson(result),
      error: error === null ? null : truncateToJsonBytes(error),
    }
  })
  return value
}

const isTextOrNull = (value: unknown): value is string | null =>
  value === null || typeof value === 'string'

interface Attempt<T> {
  readonly value: T | null
  readonly error: Error | null
}

function attempt<T>(work: () => T): Attempt<T> {
  try {
    return { value: work(), error: null }
  } catch (error) {
    return { value: null, error: error as Error }
  }
}

/** Decodes a stream as text, by lines or 4 KiB. */
function createTextDecoderSink(emit: (delta: string) => void): {
  sink: ByteSink
  flush: () => void
} {
  const decoder = new TextDecoder()
  const bytes = new Uint8Array(4096)
  let size = 0
  const flush = () => {
    if (size > 0) emit(decoder.decode(bytes.subarray(0, size), { stream: true }))
    size = 0
  }
  const sink: ByteSink = (byte) => {
    if (byte === null) return
    bytes[size] = byte
    size += 1
    if (byte === NEWLINE || size === bytes.length) flush()
  }
  return { sink, flush }
}
