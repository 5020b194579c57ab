import type { ServiceError } from '../../core/errors.ts'

/** Resolves keyring secrets of one call's caller (decision 39). */
export interface KeyringSecretResolver {
  /** Returns the value; null when its owner did not list this host. `host` includes a non-default port. */
  resolve(name: string, host: string): Promise<string | null>
}

export interface EgressRequest {
  readonly url: string
  /** Values may contain `{{keyring.NAME}}`. */
  readonly headers?: Readonly<Record<string, string>>
  readonly secrets?: KeyringSecretResolver
  /** Limit in decoded bytes. */
  readonly maxBytes: number
  readonly timeoutMs?: number
  readonly maxRedirects?: number
  readonly signal: AbortSignal
}

export interface EgressReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** The address after redirects. */
  readonly url: string
}

export interface SingleHopRequest {
  readonly url: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Headers set by this station; never headers of the caller. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** Limit in decoded bytes. */
  readonly maxBytes: number
  readonly timeoutMs?: number
  readonly signal: AbortSignal
}

export interface SingleHopReply extends EgressReply {
  /** Raw `set-cookie` values. */
  readonly cookies: readonly string[]
}

/** The only client for URLs chosen by callers. */
export interface EgressClient {
  /** Throws, without a connection, what `fetch` would throw on its first hop. */
  preflight(request: Omit<EgressRequest, 'maxBytes'>): Promise<void>
  /** Sends a GET. Resolves for any status; rejects with a ServiceError otherwise. */
  fetch(request: EgressRequest): Promise<EgressReply>
  /**
   * Sends one request and returns its response, without following redirects or retrying. Rejects with a
   * ServiceError, wrapped in a `RequestNotSentError` when nothing can have arrived.
   */
  sendSingleHop(request: SingleHopRequest): Promise<SingleHopReply>
}

/** The request reached no server. */
export class RequestNotSentError extends Error {
  readonly reason: ServiceError
  constructor(reason: ServiceError) {
    super(reason.message, { cause: reason })
    this.reason = reason
  }
}
