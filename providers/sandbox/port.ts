export type SandboxLanguage = 'python' | 'javascript' | 'bash'

/** What the operating system adds to the interpreter and to Node's permission model; weakest first. */
export const ISOLATION_LEVELS = ['process', 'unshare', 'bwrap'] as const
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number]

export interface SandboxJob {
  /** Whose program it is: hosts are shared out by owner. */
  readonly owner: string
  readonly language: SandboxLanguage
  readonly code: string
  readonly timeoutMs: number
}

export interface SandboxAbortSignals {
  /** Ends the program wherever it is. */
  readonly signal: AbortSignal
  /** Takes it out of the queue; a program that has begun goes on. */
  readonly waiting?: AbortSignal
}

/** Hears of a program while it runs. */
export interface SandboxListener {
  onStart(): void
  /** What it printed, as it appears. */
  onOutput(delta: string): void
}

/** How a program ended; what it did wrong is a result like any other. */
export interface SandboxResult {
  readonly stdout: string
  readonly stderr: string
  /** JSON, or text where the value is none; null where there is no value. */
  readonly result: unknown
  /** Null where the program ended well. */
  readonly error: string | null
  /** Output beyond the limit was dropped. */
  readonly truncated: boolean
  readonly ms: number
  readonly isolation: IsolationLevel
}

/** Runs programs of strangers, each in an interpreter of its own. */
export interface Sandbox {
  /**
   * What programs run in here: null before the first one; whether the operator allows it; and
   * whether any can start, as far as was tried.
   */
  level(): {
    readonly isolation: IsolationLevel | null
    readonly allowed: boolean
    readonly starts: boolean
  }
  /**
   * Refuses with `provider_not_configured` where the isolation is below what the operator demands,
   * with `sandbox_unavailable` where no host could be started just now.
   */
  check(): Promise<void>
  /**
   * Runs a program to its end, its deadline or its memory limit; a program that ends its host has ended
   * itself, and that is a result. Rejects with `sandbox_busy` when
   * no host is free in time or its host died before the program began, with `sandbox_unavailable` when
   * none can be started, with the reason of `waiting` while the program waits for a host, and with the
   * reason of `signal` at any time.
   */
  run(job: SandboxJob, signals: SandboxAbortSignals, hear?: SandboxListener): Promise<SandboxResult>
}
