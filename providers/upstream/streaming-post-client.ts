import { Agent, fetch } from 'undici'
import { SECOND } from '../../core/clock.ts'
import { toFetchError } from '../egress/fetch-errors-and-body-limit.ts'
import { createOperatorDnsLookup } from '../egress/operator-dns-lookup.ts'

/** HTTP client that streams responses of configured providers. */

export interface StreamedUpstreamReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** The body as it arrives; ending the iteration closes the connection. */
  readonly body: AsyncIterable<Uint8Array>
}

/** Posts JSON to configured providers and streams the response. */
export interface StreamingPostClient {
  /** Rejects with a ServiceError that carries `details`, or with the signal's reason. */
  post(request: {
    readonly url: string
    readonly headers: Readonly<Record<string, string>>
    readonly body: unknown
    readonly signal: AbortSignal
    readonly details: Record<string, unknown>
  }): Promise<StreamedUpstreamReply>
  close(): Promise<void>
}

export function createStreamingPostClient(
  userAgent: string,
  connections = 32,
): StreamingPostClient {
  // Callers set the timeouts: a model may take longer than a page.
  const agent = new Agent({
    connections,
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: 3 * SECOND, lookup: createOperatorDnsLookup() },
  })
  return {
    async post({ url, headers, body, signal, details }) {
      try {
        const reply = await fetch(url, {
          method: 'POST',
          dispatcher: agent,
          // The request carries a key, so it must not follow a redirect.
          redirect: 'manual',
          signal,
          headers: { 'content-type': 'application/json', ...headers, 'user-agent': userAgent },
          body: JSON.stringify(body),
        })
        const none = (async function* () {})()
        return {
          status: reply.status,
          headers: Object.fromEntries(reply.headers),
          body: (reply.body as AsyncIterable<Uint8Array> | null) ?? none,
        }
      } catch (error) {
        if (signal.aborted) throw signal.reason
        throw toFetchError(error, details)
      }
    },
    close: () => agent.destroy(),
  }
}
