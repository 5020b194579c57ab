import { setImmediate as turn } from 'node:timers/promises'

type CompiledFunction = ((...args: never[]) => unknown) & { errors?: unknown }

/**
 * Schemas become code when they are first used, or when there is time: hundreds of them are most of
 * a start, and a process serves few of them in its first second.
 */
export function createLazySchemaCompiler() {
  const open = new Set<() => unknown>()

  return {
    /** Stands for what `make` makes; as a check it also tells what the last one complained of. */
    later<F extends CompiledFunction>(make: () => F): F {
      let made: F | undefined
      const compiled = (): F => {
        open.delete(compiled)
        return (made ??= make())
      }
      open.add(compiled)
      const stands = (...args: never[]) => (made ?? compiled())(...args)
      return Object.defineProperty(stands, 'errors', { get: () => made?.errors }) as unknown as F
    },

    /** Makes what is left, one in each turn of the loop. */
    async warm(): Promise<void> {
      for (const compiled of open) {
        compiled()
        await turn()
      }
    },
  }
}
