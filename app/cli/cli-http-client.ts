import { loadClientSettings } from '../config.ts'

/** HTTP client of the `gas` commands that call a station. */

/** Maps status and error code to the exit code. */
function exitCode(status: number, code: unknown): number {
  if (status < 400) return 0
  if (status === 401) return 3
  if (status === 402 && code !== 'task_budget_exceeded') return 4
  if (code === 'task_budget_exceeded' || code === 'FUSE_TRIPPED' || code === 'key_cap_exceeded')
    return 5
  return 1
}

/** Sends requests to GAS_URL and prints the responses to stdout. */
export function createCliHttpClient() {
  const { url, apiKey } = loadClientSettings()
  return {
    async send(
      method: string,
      path: string,
      body?: unknown,
      headers: Record<string, string> = {},
    ): Promise<number> {
      const response = await fetch(`${url}${path}`, {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(apiKey === null ? {} : { 'x-api-key': apiKey.reveal() }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }).catch((error: unknown) => {
        throw new Error(`${url} does not answer`, { cause: error })
      })
      const answer = (await response.json()) as Record<string, unknown>
      process.stdout.write(`${JSON.stringify(answer, null, process.stdout.isTTY ? 2 : 0)}\n`)
      return exitCode(response.status, answer['code'])
    },
  }
}
