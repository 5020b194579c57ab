import type { ServiceError } from '../../core/errors.ts'

/** Keyring secrets of the caller of one call (decision 39). */
export interface KeyringSecretResolver {
  /** The value, or null when its owner did not list this host; `host` names a port that is not the default. */
  resolve(name: string, host: string): Promise<string | null>
}

export interface EgressRequest {
  readonly url: string
  /** Values may name `{{keyring.NAME}}`. */
  readonly headers?: Readonly<Record<string, string>>
  readonly secrets?: KeyringSecretResolver
  /** Decoded bytes. */
  readonly maxBytes: number
  readonly timeoutMs?: number
  readonly maxRedirects?: number
  readonly signal: AbortSignal
}

export interface EgressReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Where the redirects ended. */
  readonly url: string
}

export interface SingleHopRequest {
  readonly url: string
  readonly method: 'GET' | 'POST'
  /** Written by us: none of them is a caller's own. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** Decoded bytes. */
  readonly maxBytes: number
  readonly timeoutMs?: number
  readonly signal: AbortSignal
}

export interface SingleHopReply extends EgressReply {
  /** Each `set-cookie` as it came. */
  readonly cookies: readonly string[]
}

/** The only way to an address that a caller chose. */
export interface EgressClient {
  /** Refuses, without a connection, what `fetch` would refuse on its first hop. */
  preflight(request: Omit<EgressRequest, 'maxBytes'>): Promise<void>
  /** A GET. A reply of any status is a reply; rejects with a ServiceError otherwise. */
  fetch(request: EgressRequest): Promise<EgressReply>
  /**
   * One request and its reply, which may well be a redirect: nothing is followed and nothing repeated.
   * Rejects with a ServiceError; with a NotSent around it where nothing can have arrived there.
   */
  sendSingleHop(request: SingleHopRequest): Promise<SingleHopReply>
}

/** The request never reached anybody. */
export class RequestNotSentError extends Error {
  readonly reason: ServiceError
  constructor(reason: ServiceError) {
    super(reason.message, { cause: reason })
    this.reason = reason
  }
}
