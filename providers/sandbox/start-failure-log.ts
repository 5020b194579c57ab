import { formatStartFailure, type SandboxStartFailure } from './sandbox-host-process.ts'
import type { SandboxLanguage } from './port.ts'
import type { LauncherSelection } from './launcher-selection.ts'

/** Why hosts do not start, as far as was tried. */
export interface StartFailureLog {
  /** How the last start of a host went: null where it came up. */
  record(language: SandboxLanguage, fault: SandboxStartFailure | null): void
  /** One for all languages, or one for each that is broken by itself. */
  list(): readonly string[]
  /** Languages that are broken by themselves. */
  readonly brokenLanguageCount: () => number
}

export function createStartFailureLog(
  launcherSelection: LauncherSelection,
  log: (message: string, error: unknown) => void,
): StartFailureLog {
  const broken = new Map<SandboxLanguage, string>()
  return {
    record(language, fault) {
      if (fault === null || launcherSelection.failure() !== null)
        return void broken.delete(language)
      if (broken.get(language) !== fault.reason)
        log(`sandbox hosts for ${language} do not start`, new Error(formatStartFailure(fault)))
      broken.set(language, fault.reason)
    },
    list() {
      const everywhere = launcherSelection.failure()
      if (everywhere !== null) return [everywhere]
      return [...broken].map(([language, fault]) => `${language}: ${fault}`)
    },
    brokenLanguageCount: () => broken.size,
  }
}
