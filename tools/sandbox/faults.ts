import { told, type StartFault } from './child.ts'
import type { Language } from './port.ts'
import type { Way } from './way.ts'

/** Why hosts do not start, as far as was tried. */
export interface Faults {
  /** How the last start of a host went: null where it came up. */
  note(language: Language, fault: StartFault | null): void
  /** One for all languages, or one for each that is broken by itself. */
  list(): readonly string[]
  /** Languages that are broken by themselves. */
  readonly languages: () => number
}

export function createFaults(way: Way, log: (message: string, error: unknown) => void): Faults {
  const broken = new Map<Language, string>()
  return {
    note(language, fault) {
      if (fault === null || way.fault() !== null) return void broken.delete(language)
      if (broken.get(language) !== fault.reason)
        log(`sandbox hosts for ${language} do not start`, new Error(told(fault)))
      broken.set(language, fault.reason)
    },
    list() {
      const everywhere = way.fault()
      if (everywhere !== null) return [everywhere]
      return [...broken].map(([language, fault]) => `${language}: ${fault}`)
    },
    languages: () => broken.size,
  }
}
