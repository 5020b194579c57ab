import { setTimeout as pause } from 'node:timers/promises'
import { insist } from './telling.ts'

type Headers = Readonly<Record<string, string>>

/** What every answer of a tool says of its price. */
export interface Meta {
  readonly cost_usdc: number
  readonly balance_usdc: number | null
  readonly rail: string
}

export interface Answer<T> {
  readonly status: number
  readonly headers: globalThis.Headers
  readonly body: T
  readonly text: string
}

export interface Asked {
  readonly key?: string
  readonly json?: object
  readonly headers?: Headers
  /** A client that pays by itself. */
  readonly by?: typeof fetch
}

/** The way to one station: any status but the one that is promised ends the demo. */
export type Door = <T = { _meta: Meta }>(
  status: number,
  call: `${'GET' | 'POST'} ${string}`,
  asked?: Asked,
) => Promise<Answer<T>>

export function doorOf(url: string): Door {
  return async <T>(
    status: number,
    call: string,
    { key, json, headers, by = fetch }: Asked = {},
  ) => {
    const [method = '', path = ''] = call.split(' ')
    const response = await by(`${url}${path}`, {
      method,
      headers: {
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...(key === undefined ? {} : { 'x-api-key': key }),
        ...headers,
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
    })
    const text = await response.text()
    insist(response.status === status, `${call} answers ${status}`, `${response.status} ${text}`)
    return { status, headers: response.headers, body: JSON.parse(text) as T, text }
  }
}

const PATIENCE_MS = 15_000
const LOOK_MS = 50

/** Looks again and again until something is so. */
export async function eventually<T>(
  promise: string,
  look: () => Promise<T>,
  isSo: (seen: T) => boolean,
): Promise<T> {
  const until = performance.now() + PATIENCE_MS
  for (;;) {
    const seen = await look()
    if (isSo(seen)) return seen
    insist(performance.now() < until, `${promise} within ${PATIENCE_MS / 1000} s`, seen)
    await pause(LOOK_MS)
  }
}
