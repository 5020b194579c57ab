import { readFile } from 'node:fs/promises'

/** What hosts use of it; Node has it, its types do not. */
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

/** Interpreters that ask for more memory are told no, and say so in their own language. */
export function limitWasmMemory(): void {
  const { prototype } = WebAssembly.Memory
  const grow = prototype.grow
  prototype.grow = function clamped(this: WebAssembly.Memory, pages: number): number {
    if (this.buffer.byteLength / WASM_PAGE_BYTES + pages > MAX_WASM_PAGES)
      throw new RangeError('out of memory')
    return grow.call(this, pages)
  }
}
