import { Agent, fetch } from 'undici'
import { SECOND } from '../../core/clock.ts'
import { toFetchError, readLimitedBody } from './fetch-errors-and-body-limit.ts'
import { createOperatorDnsLookup } from './operator-dns-lookup.ts'
import type { DnsAddressResolver } from './dns-resolver.ts'

/** HTTP client for addresses configured by the operator. */

export interface OperatorConfiguredUrlHttpReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

export interface OperatorConfiguredUrlHttpRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent with POST when present. */
  readonly body?: string | undefined
  readonly maxBytes: number
  readonly signal: AbortSignal
  /** Added to the error when there is no response. */
  readonly details: Record<string, unknown>
}

/** Sends requests without the egress guard: configured addresses may be private. */
export interface OperatorConfiguredUrlHttpClient {
  request(request: OperatorConfiguredUrlHttpRequest): Promise<OperatorConfiguredUrlHttpReply>
  close(): Promise<void>
}

export function createUnguardedProviderHttpClient(
  resolve: DnsAddressResolver | undefined,
  connections: number,
): OperatorConfiguredUrlHttpClient {
  const lookup = createOperatorDnsLookup(resolve)
  const agent = new Agent({ connections, connect: { timeout: 3 * SECOND, lookup } })
  return {
    async request({ url, headers, body, maxBytes, signal, details }) {
      try {
        // A redirect would leave the configured provider.
        const what = body === undefined ? {} : { method: 'POST', body }
        const given = { dispatcher: agent, redirect: 'manual', signal, headers, ...what } as const
        const reply = await fetch(url, given)
        const answer = await readLimitedBody(reply, maxBytes)
        const { status } = reply
        return { status, headers: Object.fromEntries(reply.headers), text: answer.toString() }
      } catch (error) {
        if (signal.aborted) throw signal.reason
        throw toFetchError(error, details)
      }
    },
    close: () => agent.destroy(),
  }
}
