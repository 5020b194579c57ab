import { readFile } from 'node:fs/promises'

/** WebAssembly for sandbox hosts, with limited memory. */

/** The part in use; Node provides it without types. */
declare global {
  namespace WebAssembly {
    interface Module {
      readonly [Symbol.toStringTag]: string
    }
    interface Instance {
      readonly exports: Record<string, unknown>
    }
    type Imports = Record<string, Record<string, unknown>>
    class Memory {
      readonly buffer: ArrayBuffer
      grow(pages: number): number
    }
    function compile(bytes: Uint8Array): Promise<Module>
    function instantiate(module: Module, imports: Imports): Promise<Instance>
  }
}

const WASM_PAGE_BYTES = 65_536
const MAX_WASM_PAGES = (256 * 1024 * 1024) / WASM_PAGE_BYTES

export const compileWasmFile = async (file: string): Promise<WebAssembly.Module> =>
  WebAssembly.compile(await readFile(file))

/** Limits WebAssembly memory; interpreters then report out-of-memory errors of their own. */
export function limitWasmMemory(): void {
  const { prototype } = WebAssembly.Memory
  const grow = prototype.grow
  prototype.grow = function clamped(this: WebAssembly.Memory, pages: number): number {
    if (this.buffer.byteLength / WASM_PAGE_BYTES + pages > MAX_WASM_PAGES)
      throw new RangeError('out of memory')
    return grow.call(this, pages)
  }
}
