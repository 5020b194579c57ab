import { createRequire } from 'node:module'
import {
  newQuickJSWASMModuleFromVariant,
  newVariant,
  RELEASE_SYNC,
  type QuickJSContext,
  type QuickJSHandle,
  type QuickJSRuntime,
} from 'quickjs-emscripten'
import { compileWasmFile } from './wasm-memory.ts'
import {
  truncateToJsonBytes,
  parseBoundedJson,
  type SandboxInterpreterResult,
  type SandboxHostJob,
  type SandboxJobInterpreter,
  type SandboxJobOutputCollector,
} from './sandbox-job-protocol.ts'

/** The JavaScript interpreter of a sandbox host. */

const QUICKJS_HEAP_BYTES = 64 * 1024 * 1024
const QUICKJS_STACK_BYTES = 256 * 1024
const MAX_SCRIPT_ERROR_BYTES = 4 * 1024

/** Runs in the interpreter before the program, and formats printed values. */
const PRELUDE = `(print => {
  const { stringify } = JSON
  const MAX_LINE = 524288
  const simple = (key, value) =>
    typeof value === 'bigint' || typeof value === 'symbol' ? String(value)
    : typeof value === 'function' ? '[function ' + (value.name || 'anonymous') + ']'
    : value instanceof Error ? String(value)
    : value instanceof Map || value instanceof Set ? [...value] : value
  const show = value => {
    if (typeof value === 'string') return value
    if (value instanceof Error) return value + '\\n' + (value.stack ?? '')
    if (typeof value !== 'object' && typeof value !== 'function') return String(value)
    try { return stringify(value, simple) ?? String(value) } catch { return String(value) }
  }
  const to = problem => (...values) => print(problem, values.map(show).join(' ').slice(0, MAX_LINE) + '\\n')
  const [out, err] = [to(false), to(true)]
  globalThis.console = { log: out, info: out, debug: out, warn: err, error: err }
  return value => {
    if (value === undefined) return null
    try { return stringify(value, simple) ?? null } catch { return stringify(String(value)) }
  }
})`

/** Creates interpreters; QuickJS is compiled once and gets new memory for each job. */
export async function createJavascriptInterpreterFactory(): Promise<
  () => Promise<SandboxJobInterpreter>
> {
  const from = createRequire(createRequire(import.meta.url).resolve('quickjs-emscripten'))
  const wasm = from.resolve('@jitl/quickjs-wasmfile-release-sync/wasm')
  const wasmModule = await compileWasmFile(wasm)
  return async () => {
    const variant = newVariant(RELEASE_SYNC, { wasmModule })
    const quick = await newQuickJSWASMModuleFromVariant(variant)
    const runtime = quick.newRuntime()
    runtime.setMemoryLimit(QUICKJS_HEAP_BYTES)
    runtime.setMaxStackSize(QUICKJS_STACK_BYTES)
    const context = runtime.newContext()
    return async (next, output) => runJavascript(runtime, context, next, output)
  }
}

/** Nothing is disposed: the whole memory is dropped in any state of the program. */
function runJavascript(
  runtime: QuickJSRuntime,
  context: QuickJSContext,
  next: () => SandboxHostJob,
  output: SandboxJobOutputCollector,
): SandboxInterpreterResult {
  const print = context.newFunction('print', (problem, text) => {
    const line = context.getString(text)
    if (context.dump(problem) === true) output.problem(line)
    else output.text(line)
  })
  const prelude = context.unwrapResult(context.evalCode(PRELUDE, 'prelude.js'))
  const show = context.unwrapResult(context.callFunction(prelude, context.undefined, print))
  const { code, timeoutMs } = next()
  const late = process.uptime() + timeoutMs / 1_000
  let interrupted = false
  runtime.setInterruptHandler(() => (interrupted = process.uptime() > late))
  try {
    const value = unwrapPromise(runtime, context, evaluateScript(context, code))
    const shown = context.callFunction(show, context.undefined, value)
    if (shown.error !== undefined) throw toThrownError(context, shown.error)
    const json = context.dump(shown.value) as string | null
    return { result: parseBoundedJson(json), error: null }
  } catch (error) {
    const { message } = error as Error
    return {
      result: null,
      error: interrupted
        ? `timed out after ${timeoutMs} ms`
        : truncateToJsonBytes(message, MAX_SCRIPT_ERROR_BYTES),
    }
  }
}

/** Returns the value of the last statement; a program with top-level await is a module that exports it. */
function evaluateScript(context: QuickJSContext, code: string): QuickJSHandle {
  const plain = context.evalCode(code, 'code.js', { type: 'global' })
  if (plain.error === undefined) return plain.value
  const error = toThrownError(context, plain.error)
  if (!error.message.startsWith('SyntaxError') || !/\b(await|export)\b/.test(code)) throw error
  const module = context.evalCode(code, 'code.js', { type: 'module' })
  if (module.error !== undefined) throw toThrownError(context, module.error)
  return module.value
}

/** Returns the value of a promise after its jobs have run, since nothing else could settle it. */
function unwrapPromise(
  runtime: QuickJSRuntime,
  context: QuickJSContext,
  value: QuickJSHandle,
): QuickJSHandle {
  const jobs = runtime.executePendingJobs()
  if (jobs.error !== undefined) throw toThrownError(context, jobs.error)
  const state = context.getPromiseState(value)
  if (state.type === 'rejected') throw toThrownError(context, state.error)
  if (state.type === 'pending') throw new Error('Error: the promise is never settled')
  if (state.notAPromise === true) return value
  const { value: fulfilled } = state
  if (context.typeof(fulfilled) !== 'object') return fulfilled
  const exported = context.getProp(fulfilled, 'default')
  return context.typeof(exported) === 'undefined' ? fulfilled : exported
}

/** Returns what a program threw: the first line and the stack it would see itself. */
function toThrownError(context: QuickJSContext, handle: QuickJSHandle): Error {
  // Reporting exhausted memory needs some memory.
  context.runtime.setMemoryLimit(-1)
  const part = (name: string): string => {
    try {
      const value = context.getProp(handle, name)
      return context.typeof(value) === 'undefined' ? '' : context.getString(value)
    } catch {
      return ''
    }
  }
  if (context.typeof(handle) === 'object' && part('name') !== '') {
    return new Error(`${part('name')}: ${part('message')}\n${part('stack')}`.trimEnd())
  }
  const dumped = JSON.stringify(context.dump(handle))
  // Without memory QuickJS throws null instead of an error.
  return new Error(`Uncaught ${dumped}${dumped === 'null' ? ' (or out of memory)' : ''}`)
}
