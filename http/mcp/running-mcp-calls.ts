import type { CallerConnection } from '../../calls/call-request-and-reply-types.ts'
import { ServiceError } from '../../core/errors.ts'
import type { ApiKeyRecord } from '../../persistence/agents/api-key-store.ts'
import type { RequestRateLimiter } from '../plugins/http-request-rate-limits.ts'
import type { JsonRpcId } from './mcp-protocol.ts'

/** Calls that `notifications/cancelled` can end (decision 403). */

type Caller = Pick<ApiKeyRecord, 'id' | 'agentId'> | null

/** A running call, and what ends it. */
interface RunningMcpCall {
  readonly connection: CallerConnection
  end(): void
}

/** The running calls of this node by key and id of the request. Clients without a key share no ids. */
export function createRunningMcpCalls(limits: Pick<RequestRateLimiter, 'consumeForAgent'>) {
  const running = new Map<string, Set<AbortController>>()
  const nameOf = (key: Pick<ApiKeyRecord, 'id'>, id: JsonRpcId) => JSON.stringify([key.id, id])
  return {
    start(key: Caller, id: JsonRpcId, connection: CallerConnection): RunningMcpCall {
      if (key === null) return { connection, end: () => {} }
      const name = nameOf(key, id)
      const control = new AbortController()
      const same = running.get(name) ?? new Set()
      running.set(name, same.add(control))
      return {
        connection: new CancellableConnection(connection, control.signal),
        end() {
          same.delete(control)
          if (same.size === 0) running.delete(name)
        },
      }
    },
    /**
     * Two calls under one id belong to two clients of the key: neither is cancelled. Beyond the rate of an
     * agent the notification is ignored, as the protocol permits: the call runs on and is charged.
     */
    async cancel(key: Caller, id: unknown): Promise<void> {
      if (key === null || (typeof id !== 'string' && typeof id !== 'number')) return
      const [control, ...others] = running.get(nameOf(key, id)) ?? []
      if (control === undefined || others.length > 0) return
      const isAllowed = await limits.consumeForAgent(key.agentId, 'cancel').then(
        () => true,
        () => false,
      )
      if (isAllowed) control.abort(new ServiceError('cancelled'))
    },
  }
}
export type RunningMcpCalls = ReturnType<typeof createRunningMcpCalls>

/** A connection whose client can take its call back. */
class CancellableConnection implements CallerConnection {
  readonly #inner: CallerConnection
  readonly cancelSignal: AbortSignal

  constructor(inner: CallerConnection, cancelSignal: AbortSignal) {
    this.#inner = inner
    this.cancelSignal = cancelSignal
  }

  get closed(): boolean {
    return this.cancelSignal.aborted || this.#inner.closed
  }

  get closeSignal(): AbortSignal {
    return this.#inner.closeSignal
  }
}
