import {
  formatSandboxStartFailure,
  type SandboxStartFailure,
} from './spawn-sandbox-host-process.ts'
import type { SandboxLanguage } from './sandbox-port.ts'
import type { SandboxLauncherSelector } from './sandbox-launcher-selection.ts'

/** Records why hosts do not start. */
export interface SandboxStartFailureLog {
  /** Records the last start of a host; null where it succeeded. */
  record(language: SandboxLanguage, failure: SandboxStartFailure | null): void
  /** Returns one failure for all languages, or one per broken language. */
  list(): readonly string[]
  /** Number of languages that fail by themselves. */
  readonly brokenLanguageCount: () => number
}

export function createSandboxStartFailureLog(
  launcherSelection: SandboxLauncherSelector,
  log: (message: string, error: unknown) => void,
): SandboxStartFailureLog {
  const broken = new Map<SandboxLanguage, string>()
  return {
    record(language, failure) {
      if (failure === null || launcherSelection.failure() !== null)
        return void broken.delete(language)
      if (broken.get(language) !== failure.reason)
        log(
          `sandbox hosts for ${language} do not start`,
          new Error(formatSandboxStartFailure(failure)),
        )
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
