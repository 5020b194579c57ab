/** Interface of the sandbox that runs untrusted programs. */

export type SandboxLanguage = 'python' | 'javascript' | 'bash'

/** What the operating system adds to the interpreter and Node's permission model; weakest first. */
export const SANDBOX_ISOLATION_LEVELS = ['process', 'unshare', 'bwrap'] as const
export type SandboxIsolationLevel = (typeof SANDBOX_ISOLATION_LEVELS)[number]

export interface SandboxJob {
  /** The owner of the program; hosts are shared by owner. */
  readonly owner: string
  readonly language: SandboxLanguage
  readonly code: string
  readonly timeoutMs: number
}

export interface SandboxAbortSignals {
  /** Ends the program in any state. */
  readonly signal: AbortSignal
  /** Removes it from the queue; a running program continues. */
  readonly waiting?: AbortSignal
}

/** Receives the output of a running program. */
export interface SandboxListener {
  onStart(): void
  /** Called with output as it is printed. */
  onOutput(delta: string): void
}

/** How a program ended; its own errors are results. */
export interface SandboxResult {
  readonly stdout: string
  readonly stderr: string
  /** JSON, or text for other values; null without a value. */
  readonly result: unknown
  /** Null for a program that succeeded. */
  readonly error: string | null
  /** Output beyond the limit was dropped. */
  readonly truncated: boolean
  readonly ms: number
  readonly isolation: SandboxIsolationLevel
}

/** Runs untrusted programs, each in its own interpreter. */
export interface Sandbox {
  /**
   * Returns the isolation of programs (null before the first one), whether the operator allows it, and
   * whether a host can start, as far as was tried.
   */
  level(): {
    readonly isolation: SandboxIsolationLevel | null
    readonly allowed: boolean
    readonly starts: boolean
  }
  /**
   * Throws `provider_not_configured` where the isolation is below the operator's minimum, and
   * `sandbox_unavailable` where no host can start now.
   */
  check(): Promise<void>
  /**
   * Runs a program to its end, deadline or memory limit; a program that kills its host gets a result too.
   * Rejects with `sandbox_busy` when no host is free in time or its host died before the program started,
   * with `sandbox_unavailable` when none can start, with the reason of `waiting` while it is queued, and with
   * the reason of `signal` at any time.
   */
  run(
    job: SandboxJob,
    signals: SandboxAbortSignals,
    listener?: SandboxListener,
  ): Promise<SandboxResult>
}
