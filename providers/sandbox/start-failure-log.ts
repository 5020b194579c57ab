import { formatStartFailure, type SandboxStartFailure } from './sandbox-host-process.ts'
import type { SandboxLanguage } from './sandbox-port.ts'
import type { LauncherSelection } from './launcher-selection.ts'

/** Records why hosts do not start. */
export interface StartFailureLog {
  /** Records the last start of a host; null where it succeeded. */
  record(language: SandboxLanguage, failure: SandboxStartFailure | null): void
  /** Returns one failure for all languages, or one per broken language. */
  list(): readonly string[]
  /** Number of languages that fail by themselves. */
  readonly brokenLanguageCount: () => number
}

export function createStartFailureLog(
  launcherSelection: LauncherSelection,
  log: (message: string, error: unknown) => void,
): StartFailureLog {
  const broken = new Map<SandboxLanguage, string>()
  return {
    record(language, failure) {
      if (failure === null || launcherSelection.failure() !== null)
        return void broken.delete(language)
      if (broken.get(language) !== failure.reason)
        log(`sandbox hosts for ${language} do not start`, new Error(formatStartFailure(failure)))
      broken.set(language, failure.reason)
    },
    list() {
      const everywhere = launcherSelection.failure()
      if (everywhere !== null) return [everywhere]
      return [...broken].map(([language, failure]) => `${language}: ${failure}`)
    },
    brokenLanguageCount: () => broken.size,
  }
}
