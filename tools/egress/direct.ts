import { Agent, fetch } from 'undici'
import { SECOND } from '../../core/clock.ts'
import { explainFetch, readAtMost } from './failure.ts'
import { operatorLookup } from './lookup.ts'
import type { ResolveAll } from './resolver.ts'

export interface DirectReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

export interface DirectRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Posted when it is there. */
  readonly body?: string | undefined
  readonly maxBytes: number
  readonly signal: AbortSignal
  /** Carried by the error when there is no answer. */
  readonly details: Record<string, unknown>
}

/** The way to addresses that the operator configured: no guard, they may well be private. */
export interface Direct {
  ask(request: DirectRequest): Promise<DirectReply>
  close(): Promise<void>
}

export function createDirect(resolve: ResolveAll | undefined, connections: number): Direct {
  const lookup = operatorLookup(resolve)
  const agent = new Agent({ connections, connect: { timeout: 3 * SECOND, lookup } })
  return {
    async ask({ url, headers, body, maxBytes, signal, details }) {
      try {
        // a configured provider that redirects is not the one that was configured
        const what = body === undefined ? {} : { method: 'POST', body }
        const given = { dispatcher: agent, redirect: 'manual', signal, headers, ...what } as const
        const reply = await fetch(url, given)
        const answer = await readAtMost(reply, maxBytes)
        const { status } = reply
        return { status, headers: Object.fromEntries(reply.headers), text: answer.toString() }
      } catch (error) {
        if (signal.aborted) throw signal.reason
        throw explainFetch(error, details)
      }
    },
    close: () => agent.destroy(),
  }
}
