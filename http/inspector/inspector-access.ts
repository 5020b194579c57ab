import { randomBytes } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { HOUR, MINUTE, SECOND, type Clock } from '../../core/clock.ts'
import { ServiceError } from '../../core/errors.ts'
import { hmacSha256, timingSafeTextEqual } from '../../core/key-derivation-and-encryption.ts'
import { rateLimitError } from '../../core/rate-limit-error.ts'
import type { InspectorCodeStore } from '../../persistence/inspector/inspector-code-store.ts'
import { parseBearerToken } from '../auth/request-api-key-extraction.ts'

/**
 * Who may use the inspector: the operator, by the token or by a one-time code. Unlike other routes of the
 * operator, a connection from this machine is not enough. Browsers get a session as a cookie.
 */

export interface InspectorSession {
  readonly expiresAt: number
  /** The value of `Set-Cookie`. */
  readonly cookie: string
}

export interface InspectorAccessDeps {
  readonly clock: Clock
  readonly codes: Pick<InspectorCodeStore, 'redeem'>
  readonly operatorToken: { reveal(): string } | null
  /** Signs sessions; the same on all nodes. */
  readonly key: Buffer
  readonly publicUrl: string
}

const COOKIE = 'gas_inspector'
const SESSION_MS = 12 * HOUR
/** Wrong codes and tokens, of all callers together. */
const WRONG_ATTEMPTS = {
  name: 'inspector',
  subject: 'wrong codes and tokens of the inspector',
  max: 10,
  per: 'caller',
  windowSeconds: MINUTE / SECOND,
} as const

export function createInspectorAccess(parts: InspectorAccessDeps) {
  const { clock, codes, operatorToken } = parts
  const secure = parts.publicUrl.startsWith('https:') ? '; Secure' : ''
  let wrong: { readonly at: number }[] = []

  /** Another token ends all sessions. */
  const signature = (expiresAt: string, nonce: string): string =>
    hmacSha256(
      parts.key,
      `inspector ${expiresAt} ${nonce} ${operatorToken?.reveal() ?? ''}`,
    ).toString('base64url')

  function assertFewWrongAttempts(): void {
    const now = clock.mono()
    wrong = wrong.filter(({ at }) => at > now - MINUTE)
    const [oldest] = wrong
    if (wrong.length < WRONG_ATTEMPTS.max || oldest === undefined) return
    throw rateLimitError(WRONG_ATTEMPTS, Math.ceil((oldest.at + MINUTE - now) / SECOND))
  }

  /** Counts an attempt as wrong until it proves right: many may be under way at once. */
  async function assertRight(isRight: () => Promise<boolean> | boolean): Promise<void> {
    assertFewWrongAttempts()
    const attempt = { at: clock.mono() }
    wrong.push(attempt)
    if (await isRight()) {
      wrong = wrong.filter((one) => one !== attempt)
      return
    }
    throw new ServiceError('unauthenticated', {
      detail: 'The operator token or a new one-time code is required: `gas inspect` prints one.',
    })
  }

  const isToken = (text: string | null): boolean =>
    text !== null && operatorToken !== null && timingSafeTextEqual(text, operatorToken.reveal())

  /** When the session of a request ends; null without one. */
  function sessionEnd({ headers }: Pick<FastifyRequest, 'headers'>): number | null {
    const [expiresAt = '', nonce = '', sent = ''] = cookieOf(headers.cookie).split('.')
    if (sent === '' || !/^\d{1,15}$/.test(expiresAt)) return null
    if (!timingSafeTextEqual(sent, signature(expiresAt, nonce))) return null
    return Number(expiresAt) > clock.now() ? Number(expiresAt) : null
  }

  return {
    sessionEnd,
    /** Whether the operator sends the request: with the token, or in a session. */
    isOperator: (request: Pick<FastifyRequest, 'headers'>): boolean =>
      isToken(parseBearerToken(request.headers.authorization)) || sessionEnd(request) !== null,
    /** Begins a session. Throws 401 for a wrong code or token, 429 after many. */
    async signIn({ code, token }: { code?: string; token?: string }): Promise<InspectorSession> {
      await assertRight(() => (token === undefined ? codes.redeem(code ?? '') : isToken(token)))
      const expiresAt = Math.floor(clock.now()) + SESSION_MS
      const nonce = randomBytes(12).toString('base64url')
      const value = `${expiresAt}.${nonce}.${signature(String(expiresAt), nonce)}`
      return { expiresAt, cookie: toCookie(value, SESSION_MS / SECOND) }
    },
    /** For tools that can send neither a header nor a cookie. Throws as `signIn` does. */
    async redeem(code: string): Promise<void> {
      await assertRight(() => codes.redeem(code))
    },
    /** The value of `Set-Cookie` that ends a session. */
    noCookie: () => toCookie('', 0),
  }

  function toCookie(value: string, seconds: number): string {
    return `${COOKIE}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${seconds}${secure}`
  }
}
export type InspectorAccess = ReturnType<typeof createInspectorAccess>

function cookieOf(header: string | undefined): string {
  for (const pair of (header ?? '').split(';')) {
    const [name = '', value = ''] = pair.trim().split('=', 2)
    if (name === COOKIE) return value
  }
  return ''
}
