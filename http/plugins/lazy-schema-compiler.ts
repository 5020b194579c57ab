import { setTimeout as pause } from 'node:timers/promises'

/** Compiles schemas on first use or while the server is idle. */

type CompiledFunction = ((...args: never[]) => unknown) & { errors?: unknown }

/**
 * Defers compilation: compiling hundreds of schemas takes most of a start, and a process uses few of them in
 * its first second.
 */
export function createLazySchemaCompiler() {
  const open = new Set<() => unknown>()

  return {
    /**
     * Returns a function that compiles `make` on its first call. As a validator it also exposes the errors of
     * the last call.
     */
    later<F extends CompiledFunction>(make: () => F): F {
      let made: F | undefined
      const compiled = (): F => {
        open.delete(compiled)
        return (made ??= make())
      }
      open.add(compiled)
      // One argument: a list of them would be an array for every request.
      const stands = (value: never) => (made ?? compiled())(value)
      return Object.defineProperty(stands, 'errors', { get: () => made?.errors }) as unknown as F
    },

    /** Compiles the rest one by one, with a pause after each. */
    async warm(pauseMs = 0): Promise<void> {
      for (const compiled of open) {
        compiled()
        await pause(pauseMs)
      }
    },
  }
}
