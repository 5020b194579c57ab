/** Runs the checks of `gas doctor`: each tries one thing that the settings name, in bounded time. */

/** `failed` keeps a station, or a part of it, from working; `warning` deserves a look. */
export interface Finding {
  readonly result: 'ok' | 'warning' | 'failed'
  /** One line without any secret. */
  readonly says: string
}

export interface Check {
  /** The setting that it tries. */
  readonly setting: string
  /** Null where another check has said all. */
  run(signal: AbortSignal): Promise<Finding | null>
}

export const ok = (says: string): Finding => ({ result: 'ok', says })
export const warning = (says: string): Finding => ({ result: 'warning', says })
export const failed = (says: string): Finding => ({ result: 'failed', says })

const CHECK_MS = 8_000

/** All findings, in the order of the checks, which run beside each other. */
export const runChecks = (
  checks: readonly Check[],
  timeoutMs = CHECK_MS,
): Promise<(Finding & { readonly setting: string })[]> =>
  Promise.all(
    checks.map(async ({ setting, run }) => {
      const finding = await bounded(run, timeoutMs)
      return finding === null ? [] : [{ setting, ...finding }]
    }),
  ).then((findings) => findings.flat())

async function bounded(run: Check['run'], timeoutMs: number): Promise<Finding | null> {
  const signal = AbortSignal.timeout(timeoutMs)
  const late = new Promise<Finding>((resolve) => {
    signal.addEventListener('abort', () => resolve(failed(`no answer in ${timeoutMs / 1_000} s`)))
  })
  return Promise.race([run(signal).catch((error: unknown) => failed(reasonOf(error))), late])
}

/** The innermost reason, which `fetch` and connections to several addresses wrap. */
export function reasonOf(error: unknown): string {
  const { cause, errors, message, code } = error as Error & { errors?: Error[]; code?: string }
  if (cause instanceof Error) return reasonOf(cause)
  if (errors?.[0] !== undefined) return reasonOf(errors[0])
  return (message || code || String(error)).split('\n', 1)[0] ?? ''
}
