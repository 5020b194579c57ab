import { setTimeout as pause } from 'node:timers/promises'
import { assertDemoExpectation } from './demo-console-output.ts'

/** HTTP client of the demo. */

type Headers = Readonly<Record<string, string>>

/** Price and balance in the response of a tool. */
export interface DemoCallMeta {
  readonly cost_usdc: number
  readonly balance_usdc: number | null
  readonly rail: string
}

export interface DemoReply<T> {
  readonly status: number
  readonly headers: globalThis.Headers
  readonly body: T
  readonly text: string
}

export interface DemoRequestOptions {
  readonly key?: string
  readonly json?: object
  readonly headers?: Headers
  /** A `fetch` that pays 402 responses. */
  readonly fetch?: typeof fetch
}

/** Sends requests to one station; any status but the expected one throws and ends the demo. */
export type DemoApiClient = <T = { _meta: DemoCallMeta }>(
  status: number,
  call: `${'GET' | 'POST'} ${string}`,
  asked?: DemoRequestOptions,
) => Promise<DemoReply<T>>

export function createDemoApiClient(url: string): DemoApiClient {
  return async <T>(
    status: number,
    call: string,
    { key, json, headers, fetch = globalThis.fetch }: DemoRequestOptions = {},
  ) => {
    const [method = '', path = ''] = call.split(' ')
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...(key === undefined ? {} : { 'x-api-key': key }),
        ...headers,
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    })
    const text = await response.text()
    assertDemoExpectation(
      response.status === status,
      `${call} answers ${status}`,
      `${response.status} ${text}`,
    )
    return { status, headers: response.headers, body: JSON.parse(text) as T, text }
  }
}

const EXPECTATION_TIMEOUT_MS = 15_000
const EXPECTATION_POLL_MS = 50

/** Polls until the condition holds. */
export async function pollUntilExpected<T>(
  promise: string,
  look: () => Promise<T>,
  isSo: (seen: T) => boolean,
): Promise<T> {
  const until = performance.now() + EXPECTATION_TIMEOUT_MS
  for (;;) {
    const seen = await look()
    if (isSo(seen)) return seen
    assertDemoExpectation(
      performance.now() < until,
      `${promise} within ${EXPECTATION_TIMEOUT_MS / 1000} s`,
      seen,
    )
    await pause(EXPECTATION_POLL_MS)
  }
}
